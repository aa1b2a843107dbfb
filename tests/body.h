#ifndef PL_TESTS_BODY_H
#define PL_TESTS_BODY_H
/*
 * Random kernel bodies: a program as data, drawn from a seed (body_draw.c), traced by the public builder (body_trace.c) and evaluated on
 * the CPU (body_eval.c), whose results must be equal bit for bit.
 *
 * A program is a list of statements; that of a region is followed by its inner ones, up to `end`. A statement makes at most one value,
 * named by its index. A dropped statement drops those that use it: so a failing program is made small.
 *
 * A *unit* is one warpgroup of the grid. Programs have no races: a unit stores to its own part of each output tensor and of each array in
 * shared memory, and reads what others wrote behind a barrier only.
 */
#include "tests/random.h"

#include <plaunch.h>

enum body_kind {
#define BODY(id, weight, level) BODY_##id,
#include "tests/body.def"
#undef BODY
    BODY_KIND_COUNT
};

enum {
    BODY_MAX_STMTS = 200,
    BODY_MAX_TENSORS = 14,
    BODY_MAX_SMEM = 5,
    BODY_MAX_TMEM = 4,
    BODY_MAX_ACCS = 3,
    BODY_MAX_PIPES = 4,
    BODY_MAX_ELEMS = 2048
};
enum { BODY_NONE = -1, BODY_LIT = -2 };

/* add + scale * value; no value: a constant. */
struct body_index {
    int32_t val;
    int32_t scale, add;
    int32_t multiple; /* that it is claimed to be of; 0: nothing is */
};

enum body_view_kind { BODY_AT, BODY_WINDOW, BODY_TILE, BODY_CLIP, BODY_TRANSPOSE, BODY_RESHAPE };

struct body_view_step {
    enum body_view_kind kind;
    int32_t axis;            /* CLIP */
    struct body_index at[4]; /* AT, CLIP: the first; offsets */
    pl_shape s;              /* WINDOW, TILE, RESHAPE */
};

struct body_view {
    bool is_smem, is_tmem;
    int32_t base; /* tensor or array */
    int32_t n_steps;
    struct body_view_step steps[6];
    pl_shape s; /* of the result */
};

struct body_stmt {
    enum body_kind kind;
    int32_t end;     /* regions: behind the last inner statement */
    int32_t args[3]; /* statements; BODY_LIT: the literal; BODY_NONE */
    pl_dtype t;
    pl_shape s;
    int32_t op, axis, n;
    int64_t lit_i;
    double lit_f;
    struct body_index index[4];
    struct body_view view;
    pl_load_opt load;
    pl_layout layout;
    pl_transforms tr;

    /* what is known of the value */
    pl_scope level;   /* WARPGROUP, CTA, CLUSTER, GPU: where rank 0 is equal */
    bool is_integral; /* every element is an integer in [lo, hi], no negative zero */
    double lo, hi;
    bool is_raw;  /* bits as they were in memory, NaNs too */
    bool is_link; /* a part of the pipes: all of them are there, or none */
    bool is_dropped;
};

struct body_tensor {
    pl_dtype t;
    pl_shape s, strides;  /* in elements */
    int64_t offset_elems; /* of element 0 in the allocation */
    int64_t n_alloc;      /* elements */
    uint32_t baked_dims;
    pl_param_role role;
    bool is_small; /* integers 0..7 */
    unsigned char *data, *want;
    uint64_t address;
};

struct body_smem {
    pl_dtype t;
    pl_shape s; /* of one unit */
    pl_transforms tr;
    bool has_leading; /* (n_warpgroups, ...): a part for each */
};

/* Tensor memory: (slots, rows, columns), with slots of its own for each warpgroup unless it is shared. */
struct body_tmem {
    pl_dtype t;
    int32_t n_slots, n_rows, n_columns;
    bool is_sum; /* products go there: whole numbers, of which a few thousand are exact */
    bool is_shared;
};

/* An accumulator in registers, (64, n_columns): whole numbers. */
struct body_acc {
    pl_dtype t;
    int32_t n_columns;
};

/* How the first operand of a product comes to where the tensor core reads it. */
enum body_way { BODY_BY_COPY, BODY_BY_THREADS, BODY_TMEM_BY_THREADS, BODY_TMEM_BY_COPY };

/* Slots of shared memory, of one array or two operands (m, k) and (n, k); or of tensor memory, with sums. */
struct body_pipe {
    pl_dtype t;
    pl_shape s, second; /* rank 0: there is none */
    pl_transforms tr;
    pl_by producer, consumer;
    int32_t stages, lag, n_consumers;
    int32_t
        n_producers; /* warpgroups, of which each fills a part: (n_producers, ...); 0: the slot is no array of parts */
    int32_t n_computers; /* of the consumers, those that fill the next pipe */
    bool is_tmem;
};

/* Steps 0, 1, ... of n_outer * count, or the tiles of a static schedule; without those from `stop` on, and those with step % 3 == skip. */
struct body_walk {
    int32_t count; /* a statement; BODY_LIT */
    int32_t n, n_outer, stop, skip;
    bool has_tiles;
};

struct body {
    uint64_t seed;
    int32_t arch, n_warpgroups, cluster, n_ctas;
    bool has_roles;
    bool
        is_pair; /* products of tensor memory are of two CTAs: each has rows of x, and half of the columns of y */
    int32_t scalars[2];
    pl_fact_set facts; /* specialised by all tensors */
    int32_t n_stmts, n_tensors, n_smem, n_tmem, n_accs;
    struct body_stmt stmts[BODY_MAX_STMTS];
    struct body_tensor tensors[BODY_MAX_TENSORS];
    struct body_smem smem[BODY_MAX_SMEM];
    struct body_tmem tmem[BODY_MAX_TMEM];
    struct body_acc accs[BODY_MAX_ACCS];
    int32_t n_pipes;
    struct body_pipe pipes[BODY_MAX_PIPES];
    struct body_walk walk;
};

static inline int64_t body_n_elems(const pl_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->d[i];
    return n;
}

static inline pl_shape body_tmem_shape(const struct body *p, int32_t k)
{
    const struct body_tmem *a = &p->tmem[k];
    return (pl_shape){
        .rank = 3,
        .d = {a->n_slots * (a->is_shared ? 1 : p->n_warpgroups), a->n_rows, a->n_columns}};
}

/* The next statements are SLOTs that only hold more views. */
static inline int32_t body_n_more(enum body_kind k)
{
    return k == BODY_TMEM_MMA || k == BODY_ACC_ADD
               ? 2
               : k == BODY_COPY_IN || k == BODY_COPY_OUT || k == BODY_PRODUCT || k == BODY_ROWS ||
                     k == BODY_REDUCE_OUT;
}

static inline bool body_is_region(enum body_kind k)
{
    return k == BODY_FOR || k == BODY_WHILE || k == BODY_IF || k == BODY_ELSE ||
           k == BODY_PIPELINE || k == BODY_ROLE || k == BODY_WALK || k == BODY_PRODUCE ||
           k == BODY_CONSUME;
}

const char *body_kind_name(enum body_kind k);

void body_draw(struct body *p, uint64_t seed, int32_t arch);
void body_free(struct body *p);
/* Drops what uses a dropped statement. */
void body_settle(struct body *p);

void body_trace(pl_builder *b, const struct body *p);

/* Fills `want` of the tensors, from `data`. */
void body_eval(struct body *p);

/* Bit patterns of elements. */
uint64_t body_op1(pl_op1 op, pl_dtype t, uint64_t x);
uint64_t body_op2(pl_op2 op, pl_dtype t, uint64_t x, uint64_t y);
uint64_t body_fma(pl_dtype t, uint64_t x, uint64_t y, uint64_t z);
uint64_t body_cast(pl_dtype to, pl_dtype from, uint64_t x);
uint64_t body_of_int(pl_dtype t, int64_t v);
uint64_t body_of_double(pl_dtype t, double v);
int64_t body_to_int(pl_dtype t, uint64_t x); /* of an integer type */
bool body_is_nan(pl_dtype t, uint64_t x);
#endif
