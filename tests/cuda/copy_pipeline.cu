// Four stages of cp.async, each with an mbarrier that the copies of all threads arrive at and one that gives the stage back.
namespace copy_pipeline_ {
__device__ __forceinline__ unsigned address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(unsigned long long *bar, unsigned n)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(bar)), "r"(n) : "memory");
}
__device__ __forceinline__ void arrive(unsigned long long *bar)
{
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(address(bar)) : "memory");
}
__device__ __forceinline__ void wait(unsigned long long *bar, unsigned parity)
{
    unsigned is_done = 0;
    while (!is_done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done)
                     : "r"(address(bar)), "r"(parity)
                     : "memory");
}
__device__ __forceinline__ void load(unsigned *to, const unsigned *from, unsigned long long *bar)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(to)), "l"(__cvta_generic_to_global(from)) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address(bar)) : "memory");
}
} // namespace copy_pipeline_
extern "C" __global__ void copy_pipeline(unsigned *out, unsigned n)
{
    using namespace copy_pipeline_;
    enum { STAGES = 4, THREADS = 64, TILES = 16 };
    __shared__ unsigned tile[STAGES][THREADS];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    unsigned i = threadIdx.x, *from = out + THREADS, sum = 0;
    for (unsigned t = 0; t < TILES; t++) // what is loaded later, written by these threads themselves
        from[t * THREADS + i] = t * 100 + i;
    if (i < STAGES) {
        init(&full[i], THREADS);
        init(&empty[i], THREADS);
    }
    __threadfence();
    __syncthreads();
    for (unsigned t = 0; t < STAGES - 1; t++)
        load(&tile[t][i], from + t * THREADS + i, &full[t]);
    for (unsigned t = 0; t < TILES; t++) {
        unsigned next = t + STAGES - 1, s = next % STAGES;
        if (next < TILES) {
            if (next >= STAGES)
                wait(&empty[s], (next / STAGES - 1) % 2);
            load(&tile[s][i], from + next * THREADS + i, &full[s]);
        }
        wait(&full[t % STAGES], t / STAGES % 2);
        sum += tile[t % STAGES][THREADS - 1 - i];
        arrive(&empty[t % STAGES]);
    }
    out[i] = sum;
}
