// Dynamic shared memory: a block reversed.
extern "C" __global__ void dynamic_shared(unsigned *out, unsigned n)
{
    extern __shared__ unsigned dyn_words[];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    dyn_words[threadIdx.x] = i;
    __syncthreads();
    if (i < n)
        out[i] = dyn_words[blockDim.x - 1 - threadIdx.x];
}
