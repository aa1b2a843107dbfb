#ifndef PL_TESTS_BODY_DRAW_H
#define PL_TESTS_BODY_DRAW_H
/* What the parts of body_draw.c share: the program so far, what is in sight, and how things are chosen. */
#include "tests/body.h"

enum { DRAW_N_SHAPES = 3 };

struct draw {
    struct body *p;
    struct random_source r;
    int32_t visible[BODY_MAX_STMTS], n_visible;
    int32_t unfinished; /* a statement whose operands are being drawn; BODY_NONE */
    int32_t busy;       /* an array that a copy may be filling; BODY_NONE */
    int32_t busy_tmem;  /* one of tensor memory that a product may be filling; BODY_NONE */
    int32_t n_columns;  /* of tensor memory that are taken */
    int32_t depth, n_loops;
    pl_scope level; /* of the conditions around */
    bool is_in_role;
    pl_shape shapes[DRAW_N_SHAPES]; /* that values like to have */
};

#define DRAW_FLOATS (PL_DT(F64) | PL_DT(F32) | PL_DT(F16) | PL_DT(BF16))
#define DRAW_INTS   (PL_DT(I16) | PL_DT(I32) | PL_DT(I64) | PL_DT(U16) | PL_DT(U32) | PL_DT(U64))
#define DRAW_STORED (PL_DT(I8) | PL_DT(U8) | PL_DT(E4M3) | PL_DT(E5M2)) /* no arithmetic */
#define DRAW_PREDS  PL_DT(PRED)
#define DRAW_ALL    (DRAW_FLOATS | DRAW_INTS | DRAW_STORED | DRAW_PREDS)

static inline bool draw_has_type(pl_dtype_set set, pl_dtype t) { return (set >> t & 1) != 0; }
static inline bool draw_is_float(pl_dtype t) { return pl_dtype_kind_of(t) == PL_KIND_FLOAT; }
static inline struct body_stmt *draw_stmt(struct draw *d, int32_t i) { return &d->p->stmts[i]; }

static inline int32_t draw_below(struct draw *d, int64_t n)
{
    return (int32_t)random_below(&d->r, (uint64_t)n);
}
static inline bool draw_chance(struct draw *d, int percent) { return draw_below(d, 100) < percent; }
static inline int32_t draw_between(struct draw *d, int64_t lo, int64_t hi)
{
    return (int32_t)lo + draw_below(d, hi - lo + 1);
}

/* ---- body_draw_pick.c ---- */

enum draw_want { WANT_ANY, WANT_ARRAY, WANT_SCALAR };

pl_dtype draw_type(struct draw *d, pl_dtype_set set);
void draw_know(struct body_stmt *s, double lo, double hi);
struct body_stmt *draw_add(struct draw *d, enum body_kind kind, pl_dtype t, const pl_shape *s);
int32_t draw_pick(struct draw *d, pl_dtype_set types, const pl_shape *s, enum draw_want want);
int32_t draw_pick_var(struct draw *d, pl_dtype_set types, int rank);
pl_scope draw_least_level(pl_scope a, pl_scope b);
void draw_level_of_args(struct draw *d, struct body_stmt *s);
pl_shape draw_shape(struct draw *d);
pl_shape draw_like_shape(struct draw *d);
struct body_index draw_constant(int32_t v);
struct body_index draw_index(struct draw *d, int32_t lo, int32_t hi, pl_scope least);
double draw_exact_of(pl_dtype t);
bool draw_has_room(const struct draw *d);
int32_t draw_index_of(const struct draw *d, const struct body_stmt *s);

/* ---- body_draw_view.c ---- */

pl_shape draw_tmem_shape(struct draw *d);
int32_t draw_tensor(struct draw *d, pl_dtype t, const pl_shape *s, pl_param_role role);
struct body_view_step *draw_step(struct body_view *v, enum body_view_kind kind);
void draw_make_dense(struct draw *d, int32_t tensor);
bool draw_has_engine(const struct draw *d);
bool draw_dense_input_view(struct draw *d, pl_dtype t, const pl_shape *s, struct body_view *v);
bool draw_input_view(struct draw *d, pl_dtype t, const pl_shape *s, pl_scope least,
                     struct body_view *v);
int32_t draw_output_view(struct draw *d, pl_dtype t, const pl_shape *s, bool is_exact,
                         struct body_view *v);
pl_transforms draw_transforms(struct draw *d, pl_dtype t, const pl_shape *s);
bool draw_smem_view(struct draw *d, pl_dtype t, const pl_shape *s, bool may_turn,
                    struct body_view *v);
bool draw_smem_element(struct draw *d, pl_dtype t, struct body_view *v);

/* ---- body_draw_region.c ---- */

struct scope_mark {
    int32_t n_visible, region;
    pl_scope level;
};

struct scope_mark draw_enter(struct draw *d, int32_t region, pl_scope level, bool is_loop);
void draw_leave(struct draw *d, struct scope_mark m, bool is_loop);
int32_t draw_count(struct draw *d, int32_t most, pl_scope least);
pl_shape draw_stage_shape(struct draw *d);

/* ---- body_draw_role.c ---- */

void draw_roles(struct draw *d);

/* ---- body_draw_value.c, body_draw_memory.c, body_draw_region.c: false when the statement cannot stand here ---- */

#define BODY(id, weight, level) bool draw_##id(struct draw *d);
#include "tests/body.def"
#undef BODY
pl_layout draw_layout(struct draw *d, const pl_shape *s);
pl_dtype draw_memory_type(struct draw *d);
void draw_block(struct draw *d, int32_t n);
void draw_outs(struct draw *d, int n);
#endif
