// Blocks wait for each other: a grid that is resident at once.
extern "C" __global__ void grid_barrier(unsigned *out, unsigned n)
{
    volatile unsigned *count = out + n;
    unsigned me = blockIdx.x * blockDim.x + threadIdx.x;
    out[me] = me;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(out + n, 1);
        while (*count != gridDim.x)
            ;
    }
    __syncthreads();
    unsigned other = ((volatile unsigned *)out)[n - 1 - me];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(out + n + 1, 1);
        while (((volatile unsigned *)out)[n + 1] != gridDim.x)
            ;
    }
    __syncthreads();
    out[me] = other;
}
