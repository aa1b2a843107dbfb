// Tree reduction in shared memory.
extern "C" __global__ void block_reduce(unsigned *out, unsigned n)
{
    __shared__ unsigned s[256];
    unsigned t = threadIdx.x;
    s[t] = blockIdx.x * 256 + t;
    __syncthreads();
    for (unsigned w = 128; w != 0; w /= 2) {
        if (t < w)
            s[t] += s[t + w];
        __syncthreads();
    }
    if (t == 0 && blockIdx.x < n)
        out[blockIdx.x] = s[0];
}
