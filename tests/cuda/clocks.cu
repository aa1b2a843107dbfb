// Clocks go forward, also while asleep.
extern "C" __global__ void clocks(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    long long a = clock64();
    unsigned long long g, h;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(g));
    __nanosleep(100);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(h));
    long long b = clock64();
    if (i < n)
        out[i] = (b > a) + 2 * (h >= g);
}
