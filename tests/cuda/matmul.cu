// A tiled product of matrices of small integers, 48 x 48.
extern "C" __global__ void matmul(unsigned *out, unsigned n)
{
    __shared__ float a[16][16], b[16][16];
    unsigned x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0;
    for (unsigned k0 = 0; k0 < 48; k0 += 16) {
        a[y][x] = (float)((row + k0 + x) % 7);
        b[y][x] = (float)((k0 + y) * col % 5);
        __syncthreads();
        for (unsigned k = 0; k < 16; k++)
            sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    out[row * 48 + col] = (unsigned)sum;
}
