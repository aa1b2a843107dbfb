// Warps that hand over through shared memory and named barriers.
extern "C" __global__ void producer_consumer(unsigned *out, unsigned n)
{
    __shared__ unsigned slot[32];
    unsigned lane = threadIdx.x % 32, sum = 0;
    for (unsigned round = 0; round < 8; round++) {
        if (threadIdx.x < 32) {
            slot[lane] = round * 32 + lane;
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            sum += slot[31 - lane];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
    if (threadIdx.x >= 32)
        out[lane] = sum;
}
