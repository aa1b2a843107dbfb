/* Operations x memory spaces: the matrix is the `spaces` column of ops.def; what has a better answer has a row of its own here. */
#include "src/check/check.h"

#include "base/buf.h"
#include "src/check/where.h"
#include "src/ir/print.h"

#define PL_DIAG_ROWS "src/check/space.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "src/check/space.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

static const char *space_names(struct pl_fn *fn, uint32_t set)
{
    struct pl_buf t;
    pl_buf_init(&t, fn->arena, 32);
    for (int i = 1, n = 0; i < PL_SPACE_COUNT; i++)
        if ((set >> i & 1) != 0) {
            pl_buf_puts(&t, n++ == 0 ? "" : " or ");
            pl_buf_puts(&t, pl_space_infos[i].name);
        }
    return t.text != NULL ? t.text : "";
}

/* TMEM first: its rule is the one that people meet, whatever else is wrong with the access. */
static bool check_tmem(struct pl_fn *fn, const struct pl_op *op)
{
    if (pl_ir_ref(fn, op->refs[0])->space != PL_SPACE_TMEM)
        return false;
    if (op->code == PL_OP_LOAD)
        pl_d_tmem_plain_load(fn->diags, at(op->loc));
    else if (op->code == PL_OP_STORE)
        pl_d_tmem_plain_store(fn->diags, at(op->loc));
    else if (op->code == PL_OP_SWAP)
        pl_d_tmem_plain_swap(fn->diags, at(op->loc));
    else
        return false;
    return true;
}

/* DESIGN.md 5: a scalar is refused, whichever of value and ref it is. */
static void check_async_store(struct pl_fn *fn, const struct pl_op *op)
{
    if (pl_ir_ref(fn, op->refs[0])->shape.rank == 0)
        pl_d_async_store_scalar(fn->diags, at(op->loc), "ref");
    else if (pl_ir_op(fn, op->args[0])->shape.rank == 0)
        pl_d_async_store_scalar(fn->diags, at(op->loc), "value");
}

static bool is_plain(enum pl_opcode code)
{
    return code == PL_OP_LOAD || code == PL_OP_STORE || code == PL_OP_SWAP || code == PL_OP_ATOMIC;
}

static void check_operand(struct pl_fn *fn, const struct pl_op *op, int i)
{
    uint32_t allowed = pl_op_infos[op->code].spaces[i];
    enum pl_space space = pl_ir_ref(fn, op->refs[i])->space;
    const char *name = pl_op_infos[op->code].name;
    if ((allowed >> space & 1) != 0)
        return;
    if (is_plain(op->code) && space == PL_SPACE_ACC)
        pl_d_acc_plain_access(fn->diags, at(op->loc), name);
    else if (is_plain(op->code) && space == PL_SPACE_SEMAPHORE)
        pl_d_semaphore_plain_access(fn->diags, at(op->loc), name);
    else
        pl_d_space_forbidden(fn->diags, at(op->loc), name, pl_space_infos[space].name,
                             space_names(fn, allowed));
}

static bool atomic_takes(pl_atomic fn, pl_dtype t, enum pl_space space)
{
    const pl_dtype_set ints = PL_DT(I32) | PL_DT(U32) | PL_DT(I64) | PL_DT(U64),
                       halves = PL_DT(F16) | PL_DT(BF16);
    pl_dtype_set takers = ints;
    if (fn == PL_ATOMIC_ADD)
        takers |= halves | PL_DT(F32);
    else if (fn == PL_ATOMIC_EXCH)
        takers |= PL_DT(F32);
    else if ((fn == PL_ATOMIC_MIN || fn == PL_ATOMIC_MAX) && space == PL_SPACE_GMEM)
        takers |= halves;
    return (takers >> t & 1) != 0;
}

static void check_atomic(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(fn, op->refs[0]);
    if (!atomic_takes((pl_atomic)op->sub, r->dtype, r->space))
        pl_d_atomic_dtype(fn->diags, at(op->loc), pl_ir_atomic_word((pl_atomic)op->sub),
                          pl_dtype_name(r->dtype), pl_space_infos[r->space].name);
}

/* Which ref operand an op writes; -1: none. */
static int written_operand(enum pl_opcode code)
{
    if (code == PL_OP_COPY_OUT)
        return 1;
    return is_plain(code) && code != PL_OP_LOAD ? 0 : -1;
}

static void check_written(struct pl_fn *fn, const struct pl_op *op)
{
    int i = written_operand(op->code);
    int32_t param = i < 0 ? -1 : pl_ir_array_of(fn, op->refs[i])->param;
    if (param >= 0 && fn->request.kernel->params[param].role == PL_ROLE_IN)
        pl_d_store_to_input(fn->diags, at(op->loc), pl_op_infos[op->code].name,
                            fn->request.kernel->params[param].name);
}

static void check_peer(struct pl_fn *fn, const struct pl_op *op)
{
    if (op->code == PL_OP_VIEW) {
        bool is_alone = pl_fn_n_ctas(fn) == 1;
        if (pl_ir_ref(fn, op->refs[0])->view == PL_VIEW_PEER && is_alone)
            pl_d_peer_without_cluster(fn->diags, at(op->loc));
        return;
    }
    if (is_plain(op->code) || op->code == PL_OP_ASYNC_STORE_SMEM)
        return;
    for (int i = 0; i < PL_OP_MAX_REFS; i++)
        if (op->refs[i] != 0 && pl_ir_ref(fn, op->refs[i])->peer != 0)
            pl_d_peer_access(fn->diags, at(op->loc), pl_op_infos[op->code].name);
}

static void check_swap(struct pl_fn *fn, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(fn, op->refs[0]);
    bool is_partial = false;
    for (int i = 0; i < PL_MAX_RANK; i++)
        is_partial = is_partial || r->has_clip[i];
    if (is_partial && (op->code == PL_OP_SWAP || op->code == PL_OP_ATOMIC))
        pl_d_swap_clipped(fn->diags, at(op->loc), pl_op_infos[op->code].name);
}

static void check_op(struct pl_fn *fn, uint32_t id, void *user)
{
    (void)user;
    const struct pl_op *op = pl_ir_op(fn, id);
    check_peer(fn, op);
    if (op->code == PL_OP_ARRAY || op->code == PL_OP_VIEW || op->refs[0] == 0)
        return;
    if (check_tmem(fn, op))
        return;
    for (int i = 0; i < PL_OP_MAX_REFS; i++)
        if (op->refs[i] != 0 && !(op->code == PL_OP_TCGEN05_MMA && i == 2 &&
                                  pl_ir_ref(fn, op->refs[i])->space == PL_SPACE_TMEM))
            check_operand(fn, op, i); /* the second matrix operand in TMEM has its own row: 4014 */
    check_written(fn, op);
    check_swap(fn, op);
    if (op->code == PL_OP_ASYNC_STORE_SMEM)
        check_async_store(fn, op);
    if (op->code == PL_OP_ATOMIC)
        check_atomic(fn, op);
}

void pl_check_spaces(struct pl_fn *fn) { pl_check_walk(fn, check_op, NULL); }
