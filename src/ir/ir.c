#include "src/ir/ir.h"

#include "base/debug.h"

#include <stdio.h>
#include <string.h>

/* ---- tables ---- */

const struct pl_space_info pl_space_infos[PL_SPACE_COUNT] = {
    {"NONE", false, false},
#define SPACE(id, name, is_plain, is_local) {name, is_plain, is_local},
#include "src/ir/space.def"
#undef SPACE
};

#define T(feature) | PL_F_##feature
#define TARGET(id, arch, smem, cluster, tmem, sms, threads, features)                              \
    {arch, smem, cluster, tmem, sms, threads, 0u features},
const struct pl_target pl_targets[] = {
#include "src/ir/target.def"
};
#undef TARGET
#undef T
const size_t pl_n_targets = PL_COUNT(pl_targets);

const struct pl_affine pl_affine_zeros[PL_MAX_RANK];

const struct pl_target *pl_target_find(int32_t arch)
{
    for (size_t i = 0; i < pl_n_targets; i++)
        if (pl_targets[i].arch == arch)
            return &pl_targets[i];
    return NULL;
}

/* The short words of ops.def. */
enum {
    PURE = PL_EFF_PURE,
    READ = PL_EFF_READ,
    WRITE = PL_EFF_WRITE,
    SYNC = PL_EFF_SYNC,
    CTRL = PL_EFF_CTRL
};
enum {
    NONE = 0,
#define SPACE(id, name, is_plain, is_local) id = 1 << PL_SPACE_##id,
#include "src/ir/space.def"
#undef SPACE
};
enum {
#define FEATURE(id, text) F_##id = PL_F_##id,
    PL_FEATURE_LIST(FEATURE)
#undef FEATURE
};

#define A(lo, hi) lo, hi
#define S(set)    (set),
#define OP(id, name, result, n_args, effects, place, spaces, features)                             \
    {name, PL_RESULT_##result, n_args, effects, PL_PLACE_##place, {spaces}, features},
const struct pl_op_info pl_op_infos[PL_OP_COUNT] = {
    {"none", PL_RESULT_NONE, 0, 0, 0, PL_PLACE_ANY, {0}, 0},
#include "src/ir/ops.def"
};
#undef OP
#undef S
#undef A

static const struct {
    const char *name, *kinds;
} op1_rows[PL_OP1_COUNT] = {{"none", ""},
#define ROW(id, name, kinds) {name, kinds},
                            PL_OP1_LIST(ROW)},
  op2_rows[PL_OP2_COUNT] = {{"none", ""}, PL_OP2_LIST(ROW)
#undef ROW
};

const char *pl_op1_name(pl_op1 op) { return (unsigned)op < PL_OP1_COUNT ? op1_rows[op].name : "?"; }
const char *pl_op2_name(pl_op2 op) { return (unsigned)op < PL_OP2_COUNT ? op2_rows[op].name : "?"; }
const char *pl_op1_kinds(pl_op1 op)
{
    return (unsigned)op < PL_OP1_COUNT ? op1_rows[op].kinds : "";
}
const char *pl_op2_kinds(pl_op2 op)
{
    return (unsigned)op < PL_OP2_COUNT ? op2_rows[op].kinds : "";
}
bool pl_op2_is_compare(pl_op2 op) { return op >= PL_EQ && op <= PL_GE; }

bool pl_op2_is_reduction(pl_op2 op)
{
    return op == PL_ADD || op == PL_MUL || op == PL_MIN || op == PL_MAX || op == PL_AND ||
           op == PL_OR || op == PL_XOR;
}

const char *pl_level_name(enum pl_level level)
{
    static const char *const names[] = {"grid", "cluster", "CTA", "warpgroup", "warp"};
    return (unsigned)level < PL_COUNT(names) ? names[level] : "?";
}

/* ---- shapes and constants ---- */

int64_t pl_shape_n_elems(const pl_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->d[i] < 0)
            return -1;
        n *= s->d[i];
    }
    return n;
}

bool pl_shape_equal(const pl_shape *x, const pl_shape *y)
{
    return x->rank == y->rank && memcmp(x->d, y->d, (size_t)x->rank * sizeof x->d[0]) == 0;
}

bool pl_ir_is_const(const struct pl_fn *fn, uint32_t val, int64_t *i)
{
    const struct pl_op *op = pl_ir_op(fn, val);
    if (op->code != PL_OP_CONST || pl_dtype_kind_of(op->dtype) == PL_KIND_FLOAT)
        return false;
    *i = op->i;
    return true;
}

bool pl_ir_block_is_in(const struct pl_fn *fn, uint32_t inner, uint32_t outer)
{
    for (uint32_t b = inner; b != 0; b = fn->blocks.data[b].parent)
        if (b == outer)
            return true;
    return false;
}

/* ---- divisibility ---- */

enum { MULTIPLE_MAX = 1 << 30, MULTIPLE_DEPTH = 24 };

static int64_t lowest_bit(int64_t v)
{
    uint64_t u = (uint64_t)v & (~(uint64_t)v + 1);
    return u == 0 || u > MULTIPLE_MAX ? MULTIPLE_MAX : (int64_t)u;
}

static int64_t min64(int64_t x, int64_t y) { return x < y ? x : y; }

static int64_t multiple_of(const struct pl_fn *fn, uint32_t val, int depth);

static int64_t multiple_of_binary(const struct pl_fn *fn, const struct pl_op *op, int depth)
{
    int64_t x = multiple_of(fn, op->args[0], depth), y = multiple_of(fn, op->args[1], depth), c;
    switch (op->sub) {
    case PL_ADD:
    case PL_SUB:
    case PL_MIN:
    case PL_MAX:
    case PL_OR:
    case PL_XOR: return min64(x, y);
    case PL_MUL: return x >= MULTIPLE_MAX / y ? MULTIPLE_MAX : x * y;
    case PL_AND: return x > y ? x : y;
    case PL_REM: return min64(x, y); /* x - k*y */
    case PL_SHL:
        return pl_ir_is_const(fn, op->args[1], &c) && c >= 0 && c < 30 ? min64(x << c, MULTIPLE_MAX)
                                                                       : x;
    default: return 1; /* any other function says nothing */
    }
}

static int64_t multiple_of_dim(const struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_array *a = &fn->arrays.data[pl_ir_ref(fn, fn->param_refs[op->n])->array];
    const bool is_whole =
        op->axis == a->shape.rank - 1 && (fn->request.args[op->n].facts & PL_FACT_WHOLE16) != 0;
    return is_whole ? 128 / lowest_bit(pl_dtype_bits(a->dtype)) : 1; /* of 6 bits 64, not 21 */
}

static int64_t multiple_of(const struct pl_fn *fn, uint32_t val, int depth)
{
    const struct pl_op *op = pl_ir_op(fn, val);
    int64_t c;
    if (depth == 0)
        return 1;
    if (pl_ir_is_const(fn, val, &c))
        return lowest_bit(c);
    if (op->code == PL_OP_ASSUME_MULTIPLE) {
        int64_t x = multiple_of(fn, op->args[0], depth - 1), claimed = lowest_bit(op->i);
        return x > claimed ? x : claimed;
    }
    if (op->code == PL_OP_DIM)
        return multiple_of_dim(fn, op);
    if (op->code == PL_OP_BINARY)
        return multiple_of_binary(fn, op, depth - 1);
    if (op->code == PL_OP_CAST &&
        pl_dtype_kind_of(pl_ir_op(fn, op->args[0])->dtype) != PL_KIND_FLOAT)
        return multiple_of(fn, op->args[0], depth - 1);
    if (op->code == PL_OP_SELECT)
        return min64(multiple_of(fn, op->args[1], depth - 1),
                     multiple_of(fn, op->args[2], depth - 1));
    if (op->code == PL_OP_IV && op->n == 0 && pl_ir_op(fn, op->owner)->code == PL_OP_FOR) {
        const struct pl_op *loop = pl_ir_op(fn, op->owner);
        return min64(multiple_of(fn, loop->args[0], depth - 1),
                     multiple_of(fn, loop->args[2], depth - 1));
    }
    return 1;
}

int64_t pl_ir_multiple(const struct pl_fn *fn, uint32_t val)
{
    return multiple_of(fn, val, MULTIPLE_DEPTH);
}

int64_t pl_affine_multiple(const struct pl_fn *fn, const struct pl_affine *a)
{
    int64_t m = lowest_bit(a->konst);
    for (int i = 0; i < a->n_terms; i++) {
        int64_t v = pl_ir_multiple(fn, a->terms[i].val), s = lowest_bit(a->terms[i].scale);
        m = min64(m, v >= MULTIPLE_MAX / s ? MULTIPLE_MAX : v * s);
    }
    return m;
}

/* ---- the function ---- */

bool pl_fn_init(struct pl_fn *fn, struct pl_arena *arena, struct pl_diags *diags,
                const struct pl_trace_request *request)
{
    *fn = (struct pl_fn){.arena = arena,
                         .diags = diags,
                         .request = *request,
                         .n_warpgroups = 1,
                         .cluster = {1, 1, 1}};
    pl_vec_reserve(arena, &fn->ops, 256);
    bool ok = pl_vec_push(arena, &fn->ops) != NULL;
    ok = pl_vec_push(arena, &fn->blocks) != NULL && ok;
    ok = pl_vec_push(arena, &fn->arrays) != NULL && ok;
    ok = pl_vec_push(arena, &fn->refs) != NULL && ok;
    ok = pl_vec_push(arena, &fn->groups) != NULL && ok;
    ok = pl_vec_push(arena, &fn->bars) != NULL && ok;
    ok = pl_vec_push(arena, &fn->pipes) != NULL && ok;
    struct pl_block_info *body = ok ? pl_vec_push(arena, &fn->blocks) : NULL;
    if (body == NULL)
        return false;
    body->kind = PL_BLOCK_BODY;
    body->role_warpgroup = body->role_warp = -1;
    return true;
}
