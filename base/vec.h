#ifndef PL_BASE_VEC_H
#define PL_BASE_VEC_H
/*
 * Growing array over an arena: `PL_VEC(struct pl_op) ops;` declares {data, n, cap}. Growth copies; the old storage stays in
 * the arena until that is freed, so ids (indices), not pointers, are what survives a push.
 */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#define PL_VEC(T)                                                                                  \
    struct {                                                                                       \
        T *data;                                                                                   \
        uint32_t n, cap;                                                                           \
    }

static inline void *pl_vec_grown(struct pl_arena *a, const void *data, uint32_t n, uint32_t *cap,
                                 size_t elem_bytes)
{
    uint32_t want = *cap == 0 ? 16 : *cap * 2;
    char *p =
        want < *cap || want > SIZE_MAX / elem_bytes ? NULL : pl_arena_raw(a, want * elem_bytes);
    if (p == NULL) {
        a->is_exhausted = true;
        return NULL;
    }
    if (n != 0)
        memcpy(p, data, n * elem_bytes);
    *cap = want;
    return p;
}

/* A zeroed new last element, or NULL when the arena is exhausted. */
#define pl_vec_push(arena, v)                                                                      \
    (((v)->n == (v)->cap                                                                           \
          ? ((v)->data = pl_vec_keep((v)->data, pl_vec_grown((arena), (v)->data, (v)->n,           \
                                                             &(v)->cap, sizeof *(v)->data)))       \
          : (v)->data),                                                                            \
     (v)->n < (v)->cap ? (memset(&(v)->data[(v)->n], 0, sizeof *(v)->data), &(v)->data[(v)->n++])  \
                       : NULL)

/* Room for n elements from the start: fewer copies of what is known to grow. */
#define pl_vec_reserve(arena, v, n_)                                                               \
    ((v)->cap == 0 && ((v)->data = pl_arena_raw((arena), (n_) * sizeof *(v)->data)) != NULL        \
         ? (void)((v)->cap = (n_))                                                                 \
         : (void)0)

static inline void *pl_vec_keep(void *old, void *grown) { return grown != NULL ? grown : old; }
#endif
