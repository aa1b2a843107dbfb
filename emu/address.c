#include "emu/address.h"

#include "base/debug.h"

#if defined(PL_HOST_X86_64) && (defined(__GNUC__) || defined(__clang__))
#define HAS_AVX2 1
#else
#define HAS_AVX2 0
#endif

#define INLINE static inline __attribute__((always_inline))

/* ---- the loops, once for each instruction set ----------------------------------------------------------------------------- */

INLINE void add_base(const uint64_t *base, uint64_t add, uint64_t *out)
{
    for (int i = 0; i < PL_EMU_LANES; i++)
        out[i] = base[i] + add;
}

INLINE void add_base32(const uint32_t *base, uint32_t add, uint64_t *out)
{
    for (int i = 0; i < PL_EMU_LANES; i++)
        out[i] = (uint32_t)(base[i] + add);
}

/* Distances from the first lane's address: whether all alike or a run, and in 32 bits their least and greatest. */
INLINE void find_extent(const uint64_t *at, uint64_t step, struct pl_emu_extent *out)
{
    uint64_t differ = 0, off = 0, bits = 0, far = 0;
    int32_t lo = 0, hi = 0;
    for (uint64_t i = 0; i < PL_EMU_LANES; i++) {
        differ |= at[i] ^ at[0];
        off |= at[i] ^ (at[0] + i * step);
        bits |= at[i];
        far |= (at[i] - at[0] + 0x40000000u) >>
               31; /* beyond what the 32-bit distances below can tell */
    }
    for (int i = 0; i < PL_EMU_LANES; i++) {
        int32_t d = (int32_t)(uint32_t)(at[i] - at[0]);
        lo = d < lo ? d : lo;
        hi = d > hi ? d : hi;
    }
    out->is_same = differ == 0;
    out->is_run = off == 0;
    out->bits = bits;
    out->lo = at[0] + (uint64_t)(int64_t)lo;
    out->hi = at[0] + (uint64_t)(int64_t)hi;
    for (int i = 0; far != 0 && i < PL_EMU_LANES; i++) {
        out->lo = at[i] < out->lo ? at[i] : out->lo;
        out->hi = at[i] > out->hi ? at[i] : out->hi;
    }
}

static void add_plain(const uint64_t *base, uint64_t add, uint64_t *out)
{
    add_base(base, add, out);
}
static void add32_plain(const uint32_t *base, uint32_t add, uint64_t *out)
{
    add_base32(base, add, out);
}
static void extent_plain(const uint64_t *at, uint64_t step, struct pl_emu_extent *out)
{
    find_extent(at, step, out);
}

#if HAS_AVX2
#ifdef __clang__
#define AVX2 __attribute__((target("avx2")))
#else
#define AVX2 __attribute__((target("avx2"), optimize("O3")))
#endif
AVX2 static void add_avx2(const uint64_t *base, uint64_t add, uint64_t *out)
{
    add_base(base, add, out);
}
AVX2 static void add32_avx2(const uint32_t *base, uint32_t add, uint64_t *out)
{
    add_base32(base, add, out);
}
AVX2 static void extent_avx2(const uint64_t *at, uint64_t step, struct pl_emu_extent *out)
{
    find_extent(at, step, out);
}
#endif

struct level {
    void (*add)(const uint64_t *base, uint64_t add, uint64_t *out);
    void (*add32)(const uint32_t *base, uint32_t add, uint64_t *out);
    void (*extent)(const uint64_t *at, uint64_t step, struct pl_emu_extent *out);
};

static const struct level *level(void)
{
    static const struct level plain = {add_plain, add32_plain, extent_plain};
#if HAS_AVX2
    static const struct level avx2 = {add_avx2, add32_avx2, extent_avx2};
    if (__builtin_cpu_supports("avx2"))
        return &avx2;
#endif
    return &plain;
}

/* ---- for executors --------------------------------------------------------------------------------------------------------------- */

void pl_emu_addresses(const struct pl_emu_warp *w, const struct pl_emu_arg *m,
                      uint64_t out[PL_EMU_LANES])
{
    uint64_t add = (uint64_t)m->displacement;
    if (m->bits == 64)
        level()->add(pl_emu_lanes(w, m), add, out);
    else if (m->bits == 32)
        level()->add32(pl_emu_lanes(w, m), (uint32_t)add, out);
    else
        for (int i = 0; i < PL_EMU_LANES; i++)
            out[i] = add;
    uint64_t some = out[pl_emu_first_lane(w)];
    for (uint32_t i = 0; w->mask != PL_EMU_ALL_LANES && i < PL_EMU_LANES; i++)
        out[i] = (w->mask >> i & 1) != 0 ? out[i] : some;
}

void pl_emu_extent_of(const struct pl_emu_warp *w, const uint64_t at[PL_EMU_LANES], uint64_t step,
                      struct pl_emu_extent *out)
{
    level()->extent(at, step, out);
    out->is_run = out->is_run && w->mask == PL_EMU_ALL_LANES;
}
