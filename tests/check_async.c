/*
 * The mbarrier object against a second formulation: fields of the 64-bit word as a chip keeps them, where an arrive adds to a
 * field that counts up to 2^20. Random sequences of operations must agree step by step, refused operations included.
 */
#include "emu/async/mbar.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t rng;

static uint32_t below(uint32_t n)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rng >> 33) % n;
}

/* ---- the model ----------------------------------------------------------------------------------------------------------- */

struct model {
    uint64_t word; /* without the transaction count */
    int64_t tx;
};

enum { FULL = 1 << 20 };

static uint64_t field(uint64_t word, int bit) { return word >> bit & (FULL - 1); }

static void set_field(uint64_t *word, int bit, uint64_t v)
{
    *word = (*word & ~((uint64_t)(FULL - 1) << bit)) | (v & (FULL - 1)) << bit;
}

static void settle(struct model *m, bool is_pending_full)
{
    if (is_pending_full && m->tx == 0) {
        m->word ^= UINT64_C(1) << 63;
        set_field(&m->word, 43, field(m->word, 1));
    }
}

/* Arrivals still missing: the field counts up from 2^20 - n, and 0 stands for 2^20, which is none. */
static uint64_t missing(uint64_t word, int bit)
{
    return field(word, bit) == 0 ? 0 : FULL - field(word, bit);
}

static bool tx_fits(int64_t tx) { return tx > -FULL && tx < FULL; }

static bool model_arrive(struct model *m, const struct pl_mbar_arrive *op)
{
    uint64_t left = missing(m->word, 43);
    if (op->n_arrivals == 0 || op->n_arrivals >= FULL || op->n_arrivals > left ||
        !tx_fits(m->tx + op->tx_bytes) || (op->is_drop && op->n_arrivals > missing(m->word, 1)))
        return false;
    if (op->is_no_complete && left == op->n_arrivals && m->tx + op->tx_bytes == 0)
        return false;
    m->tx += op->tx_bytes;
    if (op->is_drop)
        set_field(&m->word, 1, field(m->word, 1) + op->n_arrivals);
    set_field(&m->word, 43, field(m->word, 43) + op->n_arrivals);
    settle(m, field(m->word, 43) == 0);
    return true;
}

static bool model_tx(struct model *m, int64_t n_bytes, bool is_complete)
{
    if (!tx_fits(m->tx + n_bytes))
        return false;
    m->tx += n_bytes;
    if (is_complete)
        settle(m, field(m->word, 43) == 0);
    return true;
}

/* ---- tests --------------------------------------------------------------------------------------------------------------------- */

START_TEST(words_are_those_of_a_chip)
{
    struct pl_mbar b;
    ck_assert_int_eq(pl_mbar_init(&b, 5), PL_MBAR_OK);
    ck_assert_uint_eq(pl_mbar_pack(&b), UINT64_C(0x7FFFD800001FFFF6));
    ck_assert_int_eq(pl_mbar_init(&b, 32), PL_MBAR_OK);
    ck_assert_uint_eq(pl_mbar_pack(&b), UINT64_C(0x7FFF0000001FFFC0));
    ck_assert_uint_eq(pl_mbar_pending_count(pl_mbar_pack(&b)), 32);
    ck_assert_int_eq(pl_mbar_init(&b, 0), PL_MBAR_BAD_COUNT);
    ck_assert_int_eq(pl_mbar_init(&b, FULL), PL_MBAR_BAD_COUNT);
    ck_assert_int_eq(pl_mbar_init(&b, FULL - 1), PL_MBAR_OK);
}
END_TEST

START_TEST(fresh_barrier_passes_parity_1_and_waits_for_0)
{
    struct pl_mbar b;
    bool has_completed;
    ck_assert_int_eq(pl_mbar_init(&b, 1), PL_MBAR_OK);
    uint64_t state = pl_mbar_pack(&b);
    ck_assert(pl_mbar_test_parity(&b, 1));
    ck_assert(!pl_mbar_test_parity(&b, 0));
    ck_assert(!pl_mbar_test_state(&b, state));
    ck_assert_int_eq(pl_mbar_arrive(&b, &(struct pl_mbar_arrive){.n_arrivals = 1}, &has_completed),
                     PL_MBAR_OK);
    ck_assert(has_completed);
    ck_assert(pl_mbar_test_parity(&b, 0));
    ck_assert(!pl_mbar_test_parity(&b, 1));
    ck_assert(pl_mbar_test_state(&b, state));
}
END_TEST

/* Bytes may arrive before they are announced, as long as an arrival is missing. */
START_TEST(complete_before_expect_keeps_the_phase_open)
{
    struct pl_mbar b;
    bool has_completed;
    ck_assert_int_eq(pl_mbar_init(&b, 1), PL_MBAR_OK);
    ck_assert_int_eq(pl_mbar_complete_tx(&b, 64, &has_completed), PL_MBAR_OK);
    ck_assert(!has_completed);
    ck_assert_int_eq(b.tx, -64);
    ck_assert_int_eq(pl_mbar_arrive(&b, &(struct pl_mbar_arrive){.n_arrivals = 1, .tx_bytes = 64},
                                    &has_completed),
                     PL_MBAR_OK);
    ck_assert(has_completed);
    ck_assert_int_eq(b.tx, 0);
}
END_TEST

static struct pl_mbar_arrive random_arrive(const struct pl_mbar *b)
{
    struct pl_mbar_arrive op = {.n_arrivals = below(8) == 0 ? below(40) : 1 + below(3),
                                .is_drop = below(10) == 0};
    if (below(4) == 0)
        op.n_arrivals = b->pending; /* the end of a phase more often than chance has it */
    if (below(3) == 0)
        op.tx_bytes = below(50) == 0 ? below(2 * FULL) : 16 * below(20);
    else if (below(3) == 0)
        op.is_no_complete = true;
    return op;
}

static void compare(const struct pl_mbar *b, const struct model *m)
{
    uint64_t word = pl_mbar_pack(b);
    uint64_t without_tx = ~((UINT64_C(0x1fffff) << 21) | UINT64_C(1) << 42);
    ck_assert_uint_eq(word & without_tx, m->word & without_tx);
    ck_assert_int_eq(b->tx, m->tx);
    struct pl_mbar back = pl_mbar_unpack(word);
    ck_assert_uint_eq(back.pending, b->pending);
    ck_assert_uint_eq(back.expected, b->expected);
    ck_assert_uint_eq(back.parity, b->parity);
    ck_assert_int_eq(back.tx, b->tx);
}

START_TEST(random_operations_agree_with_the_model)
{
    rng = 1000 + (uint64_t)_i;
    uint32_t n = 1 + below(20), n_phases = 0;
    struct pl_mbar b;
    ck_assert_int_eq(pl_mbar_init(&b, n), PL_MBAR_OK);
    struct model m = {(uint64_t)(FULL - n) << 1 | (uint64_t)(FULL - n) << 43, 0};
    for (int step = 0; step < 3000 && b.expected != 0; step++) {
        struct pl_mbar before = b;
        bool is_good, wants_good, has_completed = false;
        switch (below(4)) {
        case 0: {
            uint32_t n_bytes = below(3) != 0 && b.tx < 0 ? (uint32_t)-b.tx : 16 * below(20);
            wants_good = model_tx(&m, n_bytes, false);
            is_good = pl_mbar_expect_tx(&b, n_bytes) == PL_MBAR_OK;
            break;
        }
        case 1: {
            uint32_t n_bytes = below(3) != 0 && b.tx > 0 ? (uint32_t)b.tx : 16 * below(20);
            wants_good = model_tx(&m, -(int64_t)n_bytes, true);
            is_good = pl_mbar_complete_tx(&b, n_bytes, &has_completed) == PL_MBAR_OK;
            break;
        }
        default: {
            struct pl_mbar_arrive op = random_arrive(&b);
            wants_good = model_arrive(&m, &op);
            is_good = pl_mbar_arrive(&b, &op, &has_completed) == PL_MBAR_OK;
            break;
        }
        }
        ck_assert_int_eq(is_good, wants_good);
        ck_assert_int_eq(has_completed, b.parity != before.parity);
        n_phases += has_completed;
        compare(&b, &m);
    }
    ck_assert_msg(n_phases > 0 || b.expected == 0,
                  "no phase completed: the sequence tests nothing");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("async");
    TCase *t = tcase_create("mbarrier");
    tcase_add_test(t, words_are_those_of_a_chip);
    tcase_add_test(t, fresh_barrier_passes_parity_1_and_waits_for_0);
    tcase_add_test(t, complete_before_expect_keeps_the_phase_open);
    tcase_add_loop_test(t, random_operations_agree_with_the_model, 0, 100);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
