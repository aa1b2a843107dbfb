#ifndef PL_EMU_ASYNC_MBAR_H
#define PL_EMU_ASYNC_MBAR_H
/*
 * The mbarrier object as arithmetic: phase, pending and expected arrivals, transaction count, and the 64-bit word that holds
 * them in shared memory. Nothing here knows of warps or addresses.
 *
 * A phase completes when no arrival is pending and the transaction count is zero; then the parity flips and pending starts
 * again at expected. The transaction count may be negative for a while: a complete-tx may come before its expect-tx.
 *
 * The word is that of sm_90 and later: bits 1..20 2^20 - expected, 21..41 the transaction count, 43..62 2^20 - pending, 63 parity.
 * Counts and parity were read off compiled code; the form of the transaction count is our choice (two's complement).
 *
 * Source: PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier
 */
#include <stdbool.h>
#include <stdint.h>

enum { PL_MBAR_MAX_COUNT = (1 << 20) - 1, PL_MBAR_N_BYTES = 8 };

struct pl_mbar {
    uint32_t parity;   /* of the current, incomplete phase: 0 after init */
    uint32_t pending;  /* arrivals missing in it */
    uint32_t expected; /* arrivals of the next phase */
    int32_t tx;        /* bytes expected minus bytes completed */
};

enum pl_mbar_error {
    PL_MBAR_OK,
    PL_MBAR_BAD_COUNT,     /* a count outside 1..2^20-1 */
    PL_MBAR_OVER_ARRIVED,  /* more arrivals than the phase has pending */
    PL_MBAR_TX_RANGE,      /* the transaction count left -(2^20-1)..2^20-1 */
    PL_MBAR_COMPLETES,     /* a .noComplete arrive completes the phase */
    PL_MBAR_DROPPED_BELOW, /* more arrivals dropped than expected */
};

uint64_t pl_mbar_pack(const struct pl_mbar *b);
struct pl_mbar pl_mbar_unpack(uint64_t word);

enum pl_mbar_error pl_mbar_init(struct pl_mbar *b, uint32_t n_arrivals);

/* One arrive-on operation as the instruction performs it, atomically: expect-tx first, then drop, then arrive. */
struct pl_mbar_arrive {
    uint32_t n_arrivals; /* 1 unless given */
    uint32_t tx_bytes;   /* .expect_tx */
    bool is_drop, is_no_complete;
};
enum pl_mbar_error pl_mbar_arrive(struct pl_mbar *b, const struct pl_mbar_arrive *op,
                                  bool *has_completed);
enum pl_mbar_error pl_mbar_expect_tx(struct pl_mbar *b, uint32_t n_bytes);
enum pl_mbar_error pl_mbar_complete_tx(struct pl_mbar *b, uint32_t n_bytes, bool *has_completed);
/* cp.async.mbarrier.arrive without .noinc: one more arrival is pending in this phase. */
enum pl_mbar_error pl_mbar_add_pending(struct pl_mbar *b);

/* True when the phase of that parity is the one just completed. */
static inline bool pl_mbar_test_parity(const struct pl_mbar *b, uint32_t parity)
{
    return b->parity != (parity & 1);
}
/* state: the word before an arrive of the current or the preceding phase. */
static inline bool pl_mbar_test_state(const struct pl_mbar *b, uint64_t state)
{
    return b->parity != (uint32_t)(state >> 63);
}
static inline uint32_t pl_mbar_pending_count(uint64_t state)
{
    return (1u << 20) - (uint32_t)(state >> 43 & 0xfffff);
}
#endif
