#ifndef PL_TESTS_RANDOM_H
#define PL_TESTS_RANDOM_H
/*
 * Fresh random inputs for each run of a test: the seed is printed, and PL_SEED=… repeats a run. Bit patterns favour what
 * breaks arithmetic: zeros, ones, runs, values near powers of two, specials of the float formats.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct random_source {
    uint64_t state;
};

static inline struct random_source random_start(const char *what)
{
    const char *given = getenv("PL_SEED");
    struct random_source r = {given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL)};
    printf("%s: PL_SEED=%" PRIu64 "\n", what, r.state);
    fflush(stdout);
    return r;
}

/* splitmix64 */
static inline uint64_t random_u64(struct random_source *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Turn i of a loop test draws numbers of its own, also where each is a process that begins as the others do. */
static inline void random_turn(struct random_source *r, int i)
{
    struct random_source turn = {(uint64_t)i};
    r->state ^= random_u64(&turn);
}

static inline uint64_t random_below(struct random_source *r, uint64_t n)
{
    return random_u64(r) % n;
}

/* An integer of n_bits, often an extreme one. */
static inline uint64_t random_int(struct random_source *r, unsigned n_bits)
{
    uint64_t all = UINT64_MAX >> (64 - n_bits), v = random_u64(r);
    switch (random_below(r, 8)) {
    case 0: v = 0; break;
    case 1: v = all >> random_below(r, n_bits); break;
    case 2: v = (uint64_t)1 << random_below(r, n_bits); break;
    case 3: v = ~((uint64_t)1 << random_below(r, n_bits)); break;
    case 4: v = v & 0xff; break;
    case 5: v = 0 - (v & 0xff); break;
    default: break;
    }
    return v & all;
}

/* A float pattern of 1 + exp_bits + man_bits: specials, subnormals, short mantissas, exponents near the middle. */
static inline uint64_t random_float(struct random_source *r, unsigned exp_bits, unsigned man_bits)
{
    uint64_t man_all = ((uint64_t)1 << man_bits) - 1, exp_all = ((uint64_t)1 << exp_bits) - 1;
    uint64_t man = random_u64(r) & man_all, exp = random_u64(r) & exp_all, sign = random_u64(r) & 1;
    switch (random_below(r, 12)) {
    case 0: exp = 0; break;
    case 1: exp = random_below(r, 3); break;
    case 2:
        exp = exp_all;
        man = random_below(r, 2) ? man : 0;
        break;
    case 3: exp = exp_all - 1; break;
    case 4: man = 0; break;
    case 5: man = man_all; break;
    case 6: exp = man = 0; break;
    case 7: man &= man_all << random_below(r, man_bits); break;
    case 8: man = random_below(r, 3); break;
    default: exp = (exp_all / 2 + random_below(r, 2 * man_bits) - man_bits) & exp_all; break;
    }
    return (sign << exp_bits | exp) << man_bits | man;
}

#endif
