#ifndef PL_TESTS_SCARCE_H
#define PL_TESTS_SCARCE_H
/* An allocator that gives memory n_until_empty times, and counts what is not given back. */
#include <stdlib.h>

static int n_until_empty, n_live;

static inline void *get_scarce(size_t n_bytes, void *user)
{
    (void)user;
    if (n_until_empty-- <= 0)
        return NULL;
    n_live++;
    return malloc(n_bytes);
}

static inline void give_scarce(void *p, void *user)
{
    (void)user;
    n_live -= p != NULL;
    free(p);
}
#endif
