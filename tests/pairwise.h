#ifndef PL_TESTS_PAIRWISE_H
#define PL_TESTS_PAIRWISE_H
/*
 * Pairwise sampling: rows of levels such that every pair of levels of two factors stands in some row. Greedy: each row starts from
 * an uncovered pair and is filled with the levels that cover most; deterministic.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PW_MAX_FACTORS = 10, PW_MAX_LEVELS = 24 };

struct pairwise {
    int n_factors;
    int n_levels[PW_MAX_FACTORS];
    bool is_covered[PW_MAX_FACTORS][PW_MAX_FACTORS][PW_MAX_LEVELS][PW_MAX_LEVELS];
};

static inline int pw_gain(const struct pairwise *p, const int *row, int factor, int level)
{
    int gain = 0;
    for (int g = 0; g < p->n_factors; g++)
        if (g != factor && row[g] >= 0)
            gain += !p->is_covered[factor][g][level][row[g]];
    return gain;
}

/* The next row; false when all pairs are covered. */
static inline bool pw_next(struct pairwise *p, int row[PW_MAX_FACTORS])
{
    for (int f = 0; f < p->n_factors; f++)
        row[f] = -1;
    bool has_pair = false;
    for (int f = 0; f < p->n_factors && !has_pair; f++)
        for (int g = f + 1; g < p->n_factors && !has_pair; g++)
            for (int i = 0; i < p->n_levels[f] && !has_pair; i++)
                for (int k = 0; k < p->n_levels[g] && !has_pair; k++)
                    if (!p->is_covered[f][g][i][k]) {
                        row[f] = i;
                        row[g] = k;
                        has_pair = true;
                    }
    if (!has_pair)
        return false;
    for (int f = 0; f < p->n_factors; f++) {
        if (row[f] >= 0)
            continue;
        int best = 0, best_gain = -1;
        for (int i = 0; i < p->n_levels[f]; i++) {
            const int level = (i + row[(f + 1) % p->n_factors] + p->n_levels[f]) %
                              p->n_levels[f]; /* ties spread */
            const int gain = pw_gain(p, row, f, level);
            if (gain > best_gain) {
                best = level;
                best_gain = gain;
            }
        }
        row[f] = best;
    }
    for (int f = 0; f < p->n_factors; f++)
        for (int g = 0; g < p->n_factors; g++)
            p->is_covered[f][g][row[f]][row[g]] = true;
    return true;
}
#endif
