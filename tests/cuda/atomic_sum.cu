// A grid-stride loop and one atomic a thread.
extern "C" __global__ void atomic_sum(unsigned *out, unsigned n)
{
    unsigned sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += i;
    atomicAdd(out, sum);
}
