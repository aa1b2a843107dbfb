// Inclusive scan of a block in shared memory.
extern "C" __global__ void block_scan(unsigned *out, unsigned n)
{
    __shared__ unsigned s[2][256];
    unsigned t = threadIdx.x, from = 0;
    s[0][t] = 2 * t + 1;
    __syncthreads();
    for (unsigned d = 1; d < 256; d *= 2, from ^= 1) {
        s[from ^ 1][t] = t >= d ? s[from][t] + s[from][t - d] : s[from][t];
        __syncthreads();
    }
    if (t < n)
        out[t] = s[from][t];
}
