// Warps that leave before a barrier of the others.
extern "C" __global__ void early_return(unsigned *out, unsigned n)
{
    __shared__ unsigned s[128];
    if (threadIdx.x >= 96)
        return;
    s[threadIdx.x] = threadIdx.x + 1;
    __syncthreads();
    if (threadIdx.x >= 50)
        return;
    out[threadIdx.x] = s[threadIdx.x] + s[95 - threadIdx.x];
}
