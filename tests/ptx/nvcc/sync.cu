// Shared memory, barriers, votes, atomics, fences, and inline assembly that repeats its names.
extern __shared__ float dynamic[];
__device__ int counter;

__device__ inline void spin(unsigned *flag, unsigned until)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 t;\n"
                 "AGAIN: ld.acquire.gpu.global.u32 t, [%0];\n"
                 "setp.eq.u32 p, t, %1;\n"
                 "@p bra DONE;\n"
                 "bra AGAIN;\n"
                 "DONE: }" ::"l"(__cvta_generic_to_global(flag)),
                 "r"(until)
                 : "memory");
}

__global__ void sync(float *p, const float *q, unsigned *flags, int n)
{
    __shared__ float tile[256];
    int i = threadIdx.x;
    tile[i] = i < n ? q[i] : 0.0f;
    dynamic[i] = tile[255 - i];
    __syncthreads();
    float a = dynamic[i ^ 1];
    spin(flags, 1);
    spin(flags + 1, 2);
    atomicAdd(&counter, 1);
    atomicCAS(&counter, 1, 2);
    atomicMax(&counter, n);
    atomicAdd(p, a);
    a += __shfl_xor_sync(~0u, a, 1);
    unsigned r = __ballot_sync(~0u, a > 0) + __reduce_add_sync(~0u, i) + __activemask() + __match_any_sync(~0u, i);
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    __syncwarp();
    p[i] += (float)r + (float)clock64() + (__syncthreads_or(i) ? 1.0f : 0.0f);
}
