// Atomics on shared memory, then on global.
extern "C" __global__ void histogram_shared(unsigned *out, unsigned n)
{
    __shared__ unsigned bins[64];
    if (threadIdx.x < 64)
        bins[threadIdx.x] = 0;
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&bins[(i * 7) % 64], 1);
    __syncthreads();
    if (threadIdx.x < 64)
        atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
