// A bulk copy into shared memory that a barrier counts, and one back.
#include <cuda/barrier>
extern "C" __global__ void bulk_copy(unsigned *out, unsigned n)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    namespace cde = cuda::device::experimental;
    __shared__ alignas(16) unsigned s[128];
    __shared__ alignas(barrier) unsigned char memory[sizeof(barrier)];
    barrier &b = *(barrier *)memory;
    unsigned t = threadIdx.x, *data = out + blockIdx.x * 128;
    data[t] = blockIdx.x * 1000 + t;
    if (t == 0) {
        init(&b, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __threadfence();
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    barrier::arrival_token token;
    if (t == 0) {
        cde::cp_async_bulk_global_to_shared(s, data, sizeof s, b);
        token = cuda::device::barrier_arrive_tx(b, 1, sizeof s);
    } else {
        token = b.arrive();
    }
    b.wait(std::move(token));
    unsigned v = s[127 - t];
    __syncthreads();
    s[t] = v + 7;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (t == 0) {
        cde::cp_async_bulk_shared_to_global(data, s, sizeof s);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}
