// A padded tile in shared memory, 32 x 8 threads, 64 x 96 matrix.
extern "C" __global__ void transpose(unsigned *out, unsigned n)
{
    __shared__ unsigned tile[32][33];
    unsigned x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (unsigned j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = (y + j) * 96 + x;
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (unsigned j = 0; j < 32; j += 8)
        out[(y + j) * 64 + x] = tile[threadIdx.x][threadIdx.y + j];
}
