#include "emu/async/mbar.h"

enum { COUNT_MASK = 0xfffff, TX_MASK = 0x1fffff };

uint64_t pl_mbar_pack(const struct pl_mbar *b)
{
    uint64_t expected = ((1u << 20) - b->expected) & COUNT_MASK,
             pending = ((1u << 20) - b->pending) & COUNT_MASK;
    return expected << 1 | (uint64_t)((uint32_t)b->tx & TX_MASK) << 21 | pending << 43 |
           (uint64_t)b->parity << 63;
}

struct pl_mbar pl_mbar_unpack(uint64_t word)
{
    uint32_t tx = (uint32_t)(word >> 21) & TX_MASK;
    return (struct pl_mbar){
        .parity = (uint32_t)(word >> 63),
        .pending = ((1u << 20) - (uint32_t)(word >> 43 & COUNT_MASK)) & COUNT_MASK,
        .expected = ((1u << 20) - (uint32_t)(word >> 1 & COUNT_MASK)) & COUNT_MASK,
        .tx = (int32_t)(tx ^ 0x100000) - 0x100000,
    };
}

static enum pl_mbar_error add_tx(struct pl_mbar *b, int64_t n_bytes)
{
    int64_t tx = b->tx + n_bytes;
    if (tx < -PL_MBAR_MAX_COUNT || tx > PL_MBAR_MAX_COUNT)
        return PL_MBAR_TX_RANGE;
    b->tx = (int32_t)tx;
    return PL_MBAR_OK;
}

static bool complete_if_due(struct pl_mbar *b)
{
    if (b->pending != 0 || b->tx != 0)
        return false;
    b->parity ^= 1;
    b->pending = b->expected;
    return true;
}

enum pl_mbar_error pl_mbar_init(struct pl_mbar *b, uint32_t n_arrivals)
{
    if (n_arrivals < 1 || n_arrivals > PL_MBAR_MAX_COUNT)
        return PL_MBAR_BAD_COUNT;
    *b = (struct pl_mbar){.pending = n_arrivals, .expected = n_arrivals};
    return PL_MBAR_OK;
}

enum pl_mbar_error pl_mbar_arrive(struct pl_mbar *b, const struct pl_mbar_arrive *op,
                                  bool *has_completed)
{
    *has_completed = false;
    if (op->n_arrivals < 1 || op->n_arrivals > PL_MBAR_MAX_COUNT)
        return PL_MBAR_BAD_COUNT;
    if (op->n_arrivals > b->pending)
        return PL_MBAR_OVER_ARRIVED;
    if (op->is_drop && op->n_arrivals > b->expected)
        return PL_MBAR_DROPPED_BELOW;
    enum pl_mbar_error e = add_tx(b, op->tx_bytes);
    if (e != PL_MBAR_OK)
        return e;
    if (op->is_no_complete && op->n_arrivals == b->pending && b->tx == 0)
        return PL_MBAR_COMPLETES;
    b->expected -= op->is_drop ? op->n_arrivals : 0;
    b->pending -= op->n_arrivals;
    *has_completed = complete_if_due(b);
    return PL_MBAR_OK;
}

enum pl_mbar_error pl_mbar_expect_tx(struct pl_mbar *b, uint32_t n_bytes)
{
    return add_tx(b, n_bytes);
}

enum pl_mbar_error pl_mbar_complete_tx(struct pl_mbar *b, uint32_t n_bytes, bool *has_completed)
{
    *has_completed = false;
    enum pl_mbar_error e = add_tx(b, -(int64_t)n_bytes);
    if (e == PL_MBAR_OK)
        *has_completed = complete_if_due(b);
    return e;
}

enum pl_mbar_error pl_mbar_add_pending(struct pl_mbar *b)
{
    if (b->pending >= PL_MBAR_MAX_COUNT)
        return PL_MBAR_BAD_COUNT;
    b->pending++;
    return PL_MBAR_OK;
}
