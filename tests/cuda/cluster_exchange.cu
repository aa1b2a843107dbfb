// Two CTAs of a cluster send each other a row by st.async, which their barriers count in bytes, and read each other's shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_exchange(unsigned *out, unsigned n)
{
    __shared__ alignas(16) unsigned own[64];
    __shared__ alignas(16) unsigned inbox[64];
    __shared__ alignas(8) unsigned long long bar;
    unsigned rank, i = threadIdx.x;
    unsigned own_at = (unsigned)__cvta_generic_to_shared(own + i), inbox_at = (unsigned)__cvta_generic_to_shared(inbox + i);
    unsigned bar_at = (unsigned)__cvta_generic_to_shared(&bar);
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (i == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar_at) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(bar_at) : "memory");
    }
    own[i] = blockIdx.x * 1000 + i;
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    unsigned peer_inbox, peer_bar, peer_own, peek;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_inbox) : "r"(inbox_at), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_bar) : "r"(bar_at), "r"(rank ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_own) : "r"(own_at), "r"(rank ^ 1));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(peer_inbox), "r"(own[i] * 3),
                 "r"(peer_bar)
                 : "memory");
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(peek) : "r"(peer_own) : "memory");
    unsigned is_done = 0;
    while (!is_done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done)
                     : "r"(bar_at)
                     : "memory");
    out[blockIdx.x * 64 + i] = inbox[i] + 10000 * (peek % 1000);
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
