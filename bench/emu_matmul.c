/*
 * 1024 x 1024 x 1024 in bf16 through the tensor instructions, as texts: operands lie packed in device memory, a block of 64 along
 * k after another, and come by bulk copies; a tile of D is 64 x 256 (wgmma) or 128 x 256 (tcgen05).
 */
#include "bench/emu_matmul.h"

#include <stdarg.h>
#include <stdio.h>

enum { BLOCK_K = 64, TILE_N = 256, N_BLOCKS_K = PL_BENCH_MATMUL_SIZE / BLOCK_K };

struct text {
    char *at;
    size_t n_left;
};

static void say(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->at, t->n_left, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < t->n_left) {
        t->at += n;
        t->n_left -= (size_t)n;
    }
}

/* Both operands of block i without swizzle: 16-byte columns rows * 16 bytes apart. */
static void say_head(struct text *t, const char *version, const char *target, uint32_t rows)
{
    say(t,
        ".version %s\n.target %s\n.address_size 64\n"
        ".visible .entry matmul(.param .u64 pa, .param .u64 pb, .param .u64 pout)\n{\n"
        ".shared .align 1024 .b8 sa[%u];\n.shared .align 1024 .b8 sb[%u];\n"
        ".shared .align 8 .b64 full;\n.shared .align 8 .b64 done;\n.shared .align 4 .b32 slot;\n"
        ".reg .pred p, lead, warp0, more;\n.reg .b32 t, w, s, i, ph, ta, td, r<4>, v<32>;\n"
        ".reg .f32 f<128>;\n.reg .b64 a, b, o, x, da, db;\n",
        version, target, rows * BLOCK_K * 2, TILE_N * BLOCK_K * 2);
    say(t,
        "mov.u32 t, %%tid.x;\nshr.u32 w, t, 5;\nsetp.eq.u32 lead, t, 0;\nsetp.eq.u32 warp0, w, 0;\n"
        "ld.param.u64 a, [pa];\nmov.u32 r0, %%ctaid.y;\nmul.wide.u32 x, r0, %u;\nadd.u64 a, a, x;\n"
        "ld.param.u64 b, [pb];\nmov.u32 r1, %%ctaid.x;\nmul.wide.u32 x, r1, %u;\nadd.u64 b, b, x;\n"
        "@lead mbarrier.init.shared::cta.b64 [full], 1;\n"
        "@lead mbarrier.init.shared::cta.b64 [done], 1;\n"
        "@lead fence.mbarrier_init.release.cluster;\n",
        rows * BLOCK_K * 2 * N_BLOCKS_K, TILE_N * BLOCK_K * 2 * N_BLOCKS_K);
}

static void say_desc(struct text *t, const char *reg, const char *var, uint32_t rows, uint64_t bits)
{
    say(t,
        "mov.u32 s, %s;\nshr.u32 s, s, 4;\nand.b32 s, s, 0x3fff;\ncvt.u64.u32 %s, s;\n"
        "or.b64 %s, %s, 0x%llx;\n",
        var, reg, reg, reg, (unsigned long long)(bits | (uint64_t)8 << 32 | (uint64_t)rows << 16));
}

static void say_copies(struct text *t, uint32_t rows)
{
    uint32_t a = rows * BLOCK_K * 2, b = TILE_N * BLOCK_K * 2;
    say(t,
        "mov.u32 i, 0;\nmov.u32 ph, 0;\nsetp.ne.u32 more, 0, 0;\nK:\n@!lead bra LOADED;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %u;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sa], [a], %u, [full];\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sb], [b], %u, [full];\n"
        "LOADED:\nmbarrier.try_wait.parity.shared::cta.b64 p, [full], ph;\n@!p bra LOADED;\n"
        "bar.warp.sync -1;\n",
        a + b, a, b);
}

static void say_next(struct text *t, uint32_t rows)
{
    say(t,
        "setp.eq.u32 more, 0, 0;\nxor.b32 ph, ph, 1;\nadd.u64 a, a, %u;\nadd.u64 b, b, %u;\n"
        "add.u32 i, i, 1;\nsetp.lt.u32 p, i, %u;\n@p bra K;\n",
        rows * BLOCK_K * 2, TILE_N * BLOCK_K * 2, N_BLOCKS_K);
}

/* Where thread t of the CTA puts its part of D: n_bytes after those of the thread before. */
static void say_out(struct text *t, uint32_t n_bytes)
{
    say(t,
        "ld.param.u64 o, [pout];\nmov.u32 r0, %%ctaid.y;\nmov.u32 r1, %%nctaid.x;\n"
        "mov.u32 r2, %%ctaid.x;\nmad.lo.u32 r0, r0, r1, r2;\nmad.lo.u32 r0, r0, 128, t;\n"
        "mul.wide.u32 x, r0, %u;\nadd.u64 o, o, x;\n",
        n_bytes);
}

static void say_wgmma(struct text *t)
{
    enum { ROWS = 64 };
    say_head(t, "8.0", "sm_90a", ROWS);
    say(t, "bar.sync 0;\n");
    say_copies(t, ROWS);
    say_desc(t, "da", "sa", ROWS, 0);
    say_desc(t, "db", "sb", TILE_N, 0);
    say(t, "wgmma.fence.sync.aligned;\n");
    for (uint32_t k = 0; k < BLOCK_K / 16; k++) {
        say(t, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {f0");
        for (uint32_t r = 1; r < 128; r++)
            say(t, ", f%u", r);
        say(t,
            "}, da, db, more, 1, 1, 0, 0;\nsetp.eq.u32 more, 0, 0;\nadd.u64 da, da, %u;\n"
            "add.u64 db, db, %u;\n",
            ROWS * 2, TILE_N * 2);
    }
    say(t, "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nbar.sync 0;\n");
    say_next(t, ROWS);
    say_out(t, 512);
    for (uint32_t r = 0; r < 128; r += 4)
        say(t, "st.global.v4.f32 [o+%u], {f%u, f%u, f%u, f%u};\n", r * 4, r, r + 1, r + 2, r + 3);
    say(t, "ret;\n}\n");
}

static void say_tcgen05(struct text *t)
{
    enum { ROWS = 128 };
    say_head(t, "8.6", "sm_100a", ROWS);
    say(t, "@!warp0 bra ALLOCATED;\nbar.warp.sync -1;\n"
           "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;\nALLOCATED:\n"
           "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n"
           "ld.shared.u32 ta, [slot];\nshl.b32 td, w, 21;\nadd.u32 td, td, ta;\n");
    say_copies(t, ROWS);
    say(t, "@!lead bra MULTIPLIED;\ntcgen05.fence::after_thread_sync;\n");
    say_desc(t, "da", "sa", ROWS, (uint64_t)1 << 46);
    say_desc(t, "db", "sb", TILE_N, (uint64_t)1 << 46);
    say(t, "mov.b32 r3, 0x%x;\n",
        1u << 4 | 1u << 7 | 1u << 10 | TILE_N / 8 << 17 | ROWS / 16u << 24);
    for (uint32_t k = 0; k < BLOCK_K / 16; k++)
        say(t,
            "tcgen05.mma.cta_group::1.kind::f16 [ta], da, db, r3, more;\nsetp.eq.u32 more, 0, 0;\n"
            "add.u64 da, da, %u;\nadd.u64 db, db, %u;\n",
            ROWS * 2, TILE_N * 2);
    say(t, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\n"
           "MULTIPLIED:\nmbarrier.try_wait.parity.shared::cta.b64 p, [done], ph;\n"
           "@!p bra MULTIPLIED;\nbar.sync 0;\n");
    say_next(t, ROWS);
    say(t, "tcgen05.fence::after_thread_sync;\n");
    say_out(t, 1024);
    for (uint32_t n = 0; n < TILE_N; n += 32) {
        say(t, "tcgen05.ld.sync.aligned.32x32b.x32.b32 {v0");
        for (uint32_t r = 1; r < 32; r++)
            say(t, ", v%u", r);
        say(t, "}, [td+%u];\ntcgen05.wait::ld.sync.aligned;\n", n);
        for (uint32_t r = 0; r < 32; r += 4)
            say(t, "st.global.v4.b32 [o+%u], {v%u, v%u, v%u, v%u};\n", (n + r) * 4, r, r + 1, r + 2,
                r + 3);
    }
    say(t, "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n@!warp0 bra END;\nbar.warp.sync -1;\n"
           "tcgen05.dealloc.cta_group::1.sync.aligned.b32 ta, 256;\nEND:\nret;\n}\n");
}

struct pl_bench_matmul pl_bench_matmul_of(bool is_tcgen05, char *text, size_t n_bytes)
{
    struct text t = {text, n_bytes};
    if (is_tcgen05)
        say_tcgen05(&t);
    else
        say_wgmma(&t);
    return (struct pl_bench_matmul){.grid_x = PL_BENCH_MATMUL_SIZE / TILE_N,
                                    .grid_y = PL_BENCH_MATMUL_SIZE / (is_tcgen05 ? 128u : 64u)};
}
