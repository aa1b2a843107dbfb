#include "src/check/check.h"

#include "src/check/where.h"
#include "src/ir/print.h"

#define PL_DIAG_ROWS "src/check/served.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"
#define PL_DIAG_ROWS "src/check/served.def"
#define PL_DIAG_MODE_DEFINE
#include "base/diag_rows.h"

static const char *feature_text(uint32_t missing)
{
    static const char *const texts[] = {
#define ROW(id, text) text,
        PL_FEATURE_LIST(ROW)
#undef ROW
    };
    for (int i = 0; i < PL_FEATURE_COUNT; i++)
        if ((missing >> i & 1) != 0)
            return texts[i];
    return "?";
}

static bool has_fp8(const struct pl_fn *fn, const struct pl_op *op)
{
    for (uint32_t i = 0; i < op->n_args; i++) {
        const pl_dtype t = pl_ir_op(fn, op->args[i])->dtype;
        if (t == PL_E4M3 || t == PL_E5M2)
            return true;
    }
    return false;
}

static bool has_integers(const struct pl_fn *fn, const struct pl_op *op)
{
    const pl_dtype x = pl_ir_ref(fn, op->refs[1])->dtype;
    return x == PL_I8 || x == PL_U8;
}

static void check_op(struct pl_fn *fn, uint32_t id, void *user)
{
    (void)user;
    const struct pl_op *op = pl_ir_op(fn, id);
    const struct pl_op_info *info = &pl_op_infos[op->code];
    const struct pl_target *t = fn->request.target;
    uint32_t missing = info->features & ~t->features;
    const char *name = info->name;
    if (op->code == PL_OP_ARRAY && missing == 0) {
        const enum pl_space space = pl_ir_ref(fn, op->refs[0])->space;
        const uint32_t needs = space == PL_SPACE_TMEM  ? PL_F_TCGEN05
                               : space == PL_SPACE_ACC ? PL_F_WGMMA
                                                       : 0;
        missing = needs & ~t->features;
        name = space == PL_SPACE_TMEM ? "tmem" : "acc";
    }
    if (missing != 0)
        pl_d_chip_has_no_feature(fn->diags, at(op->loc), name, feature_text(missing), t->arch);
    else if (op->code == PL_OP_MMA && has_fp8(fn, op) && (t->features & PL_F_FP8) == 0)
        pl_d_chip_has_no_feature(fn->diags, at(op->loc), "mma of fp8 operands",
                                 feature_text(PL_F_FP8), t->arch);
    if (op->code == PL_OP_TCGEN05_MMA && t->arch != 100 && missing == 0 && has_integers(fn, op))
        pl_d_chip_has_no_feature(fn->diags, at(op->loc), info->name,
                                 "products of 8-bit integers by tcgen05", t->arch);
    if (op->code == PL_OP_TCGEN05_MMA && op->refs[5] != 0)
        pl_d_option_not_served(fn->diags, at(op->loc), "pl_tcgen05_mma with sparsity");
}

/* Barriers at the leader of a pair belong to the tensor operations that span one. */
static void check_pipe(struct pl_fn *fn, const struct pl_pipe_info *p)
{
    if ((fn->request.target->features & PL_F_TCGEN05) != 0)
        return;
    if (p->desc.full_at == PL_LEADER)
        pl_d_option_not_served(fn->diags, at(p->loc), "a pipe with full_at PL_LEADER");
    if (p->desc.empty_at == PL_LEADER)
        pl_d_option_not_served(fn->diags, at(p->loc), "a pipe with empty_at PL_LEADER");
}

void pl_check_served(struct pl_fn *fn)
{
    if (fn->request.kernel->model != PL_MODEL_GPU)
        pl_d_model_not_served(fn->diags, at((pl_loc){NULL, 0}), fn->request.kernel->name);
    pl_check_walk(fn, check_op, NULL);
    for (uint32_t i = 1; i < fn->pipes.n; i++)
        check_pipe(fn, &fn->pipes.data[i]);
}
