// cuda::barrier: arrive, then wait with the token.
#include <cuda/barrier>
extern "C" __global__ void block_barrier(unsigned *out, unsigned n)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ unsigned s[64];
    __shared__ alignas(barrier) unsigned char memory[sizeof(barrier)];
    barrier *b = (barrier *)memory;
    if (threadIdx.x == 0)
        init(b, 64);
    __syncthreads();
    unsigned v = threadIdx.x;
    for (int round = 0; round < 5; round++) {
        s[threadIdx.x] = v;
        auto token = b->arrive();
        b->wait(std::move(token));
        v = s[(threadIdx.x + 1) % 64] + 1;
        b->arrive_and_wait();
    }
    out[threadIdx.x] = v;
}
