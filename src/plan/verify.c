/* Is a plan consistent with itself? Rules come from the rows; every fault is ours, so this runs in tests and debug builds. */
#include "src/plan/plan.h"

struct verify {
    const struct pl_plan *plan;
    const struct pl_steps *steps;
    struct pl_buf *out;
    uint8_t *is_written[PL_RC_COUNT];
    uint8_t *is_placed; /* labels */
    uint32_t at;        /* step */
    bool ok;
};

static void fault(struct verify *v, const char *what)
{
    v->ok = false;
    if (v->out == NULL)
        return;
    const struct pl_step *s = &v->steps->list.data[v->at];
    pl_buf_printf(v->out, "step %u (%s): %s\n", v->at, pl_step_infos[s->op].name, what);
}

static void check_reg(struct verify *v, pl_reg r, enum pl_rclass class, bool is_dest)
{
    uint32_t i = pl_reg_index(r);
    if (r.id == 0 || i >= v->steps->n_regs[pl_reg_class(r)]) {
        fault(v, "register out of range");
        return;
    }
    if (pl_reg_class(r) != class)
        fault(v, "register of another class");
    if (is_dest)
        v->is_written[pl_reg_class(r)][i] = 1;
    else if (!v->is_written[pl_reg_class(r)][i])
        fault(v, "register read before it is written");
}

static void check_value(struct verify *v, const struct pl_opnd *o, enum pl_rclass class,
                        bool is_dest)
{
    if (o->kind == PL_OPND_REG)
        check_reg(v, o->u.reg, class, is_dest);
    else if (is_dest || o->kind != PL_OPND_IMM)
        fault(v, "operand of another kind");
    if (o->is_negated && class != PL_RC_PRED)
        fault(v, "only predicates are negated");
}

static void check_list(struct verify *v, const struct pl_opnd *o, enum pl_rclass class,
                       bool is_dest)
{
    if (o->kind != PL_OPND_LIST || o->u.index + o->n > v->steps->pool.n || o->n == 0 ||
        o->n > 128) {
        fault(v, "not a list");
        return;
    }
    for (uint32_t i = 0; i < o->n; i++)
        check_value(v, &v->steps->pool.data[o->u.index + i], class, is_dest);
}

/* Registers of whatever class; maybe none. */
static void check_regs(struct verify *v, const struct pl_opnd *o, bool is_dest)
{
    if (o->kind != PL_OPND_LIST || o->u.index + o->n > v->steps->pool.n || o->n > 16) {
        fault(v, "not a list");
        return;
    }
    for (uint32_t i = 0; i < o->n; i++) {
        const struct pl_opnd *e = &v->steps->pool.data[o->u.index + i];
        if (e->kind != PL_OPND_REG)
            fault(v, "not a register");
        else
            check_reg(v, e->u.reg, pl_reg_class(e->u.reg), is_dest);
    }
}

static void check_addr(struct verify *v, const struct pl_opnd *o, bool is_global)
{
    if (o->kind != PL_OPND_ADDR) {
        fault(v, "not an address");
        return;
    }
    if (o->u.reg.id != 0)
        check_reg(v, o->u.reg, is_global ? PL_RC_B64 : PL_RC_B32, false);
    else if (is_global)
        fault(v, "global address without a base");
    if (o->imm != (int32_t)o->imm)
        fault(v, "offset of an address beyond 32 bits");
}

static void check_index(struct verify *v, const struct pl_opnd *o, enum pl_opnd_kind kind,
                        uint32_t n)
{
    if (o->kind != kind || o->u.index >= n)
        fault(v, "index out of range or of another kind");
}

static void check_opnd(struct verify *v, const struct pl_step *s, char letter,
                       const struct pl_opnd *o)
{
    const enum pl_rclass class = (enum pl_rclass)pl_stypes[s->type].class;
    const enum pl_rclass from = (enum pl_rclass)pl_stypes[s->from].class;
    switch (letter) {
    case 'd': check_value(v, o, class, true); break;
    case 's': check_value(v, o, class, false); break;
    case 'f': check_value(v, o, from, false); break;
    case 'p': check_value(v, o, PL_RC_PRED, true); break;
    case 'P': check_value(v, o, PL_RC_PRED, false); break;
    case 'r': check_value(v, o, PL_RC_B32, true); break;
    case 'R': check_value(v, o, PL_RC_B32, false); break;
    case 'q': check_value(v, o, PL_RC_B64, true); break;
    case 'Q': check_value(v, o, PL_RC_B64, false); break;
    case 'H': check_value(v, o, PL_RC_B16, false); break;
    case 'I':
        if (o->kind != PL_OPND_IMM)
            fault(v, "not a constant");
        break;
    case 'W': check_list(v, o, class, true); break;
    case 'V': check_list(v, o, class, false); break;
    case 'w': check_list(v, o, from, true); break;
    case 'v': check_list(v, o, from, false); break;
    case 'E': check_list(v, o, PL_RC_B32, true); break;
    case 'C':
    case 'D': check_list(v, o, PL_RC_B32, false); break;
    case 'U': check_value(v, o, PL_RC_B64, false); break;
    case 'O': check_regs(v, o, true); break;
    case 'J': check_regs(v, o, false); break;
    case 'm': check_addr(v, o, pl_step_attr(s, PL_SC_SPACE) == PL_SA_SPACE_global); break;
    case 'g': check_addr(v, o, true); break;
    case 'a':
    case 'x': check_addr(v, o, false); break;
    case 't':
        check_addr(v, o, false);
        if (o->u.reg.id == 0)
            fault(v, "address in tensor memory without a base");
        break;
    case 'L': check_index(v, o, PL_OPND_LABEL, v->steps->n_labels); break;
    case 'N': check_index(v, o, PL_OPND_PARAM, v->plan->params.n); break;
    case 'S': check_index(v, o, PL_OPND_SREG, PL_SR_COUNT); break;
    case 'T': check_index(v, o, PL_OPND_TEXT, v->steps->texts.n); break;
    default: fault(v, "unknown letter in the row"); break;
    }
}

static void check_step(struct verify *v, const struct pl_step *s)
{
    const struct pl_step_info *info = &pl_step_infos[s->op];
    uint32_t n = 0;
    while (info->operands[n] != '\0')
        n++;
    if (n != 0 && info->operands[n - 1] == 'U' && pl_step_attr(s, PL_SC_L2) == PL_SA_NONE)
        n--;
    if (n != s->n_opnds || s->opnds + n > v->steps->pool.n) {
        fault(v, "wrong number of operands");
        return;
    }
    if (info->has_from != (s->from != PL_ST_NONE))
        fault(v, "a second type is missing or too many");
    for (int i = 0; i < PL_STEP_MAX_ATTRS; i++)
        if (s->attrs[i] != PL_SA_NONE && pl_sattrs[s->attrs[i]].cat != info->cats[i])
            fault(v, "attribute of another category");
    if (s->guard.id != 0)
        check_reg(v, s->guard, PL_RC_PRED, false);
    /* Sources first: a step may overwrite its own source. */
    static const char dests[] = "dprqWwOE";
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++) {
            bool is_dest = false;
            for (const char *c = dests; *c != '\0'; c++)
                is_dest |= *c == info->operands[i];
            if (is_dest == (pass == 1))
                check_opnd(v, s, info->operands[i], &v->steps->pool.data[s->opnds + i]);
        }
    if (s->op == PL_STEP_label) {
        uint32_t l = v->steps->pool.data[s->opnds].u.index;
        if (l < v->steps->n_labels && v->is_placed[l]++)
            fault(v, "label placed twice");
    }
}

static bool areas_are_disjoint(const struct pl_plan *p)
{
    for (uint32_t i = 0; i < p->areas.n; i++) {
        const struct pl_plan_area *a = &p->areas.data[i];
        if (a->align_bytes == 0 || a->offset_bytes % a->align_bytes != 0 ||
            a->offset_bytes + a->n_bytes > p->launch.smem_bytes)
            return false;
        if (i != 0 &&
            p->areas.data[i - 1].offset_bytes + p->areas.data[i - 1].n_bytes > a->offset_bytes)
            return false;
    }
    return true;
}

static bool params_are_disjoint(const struct pl_plan *p)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < p->params.n; i++) {
        const struct pl_plan_param *q = &p->params.data[i];
        if (q->offset_bytes < end || q->align_bytes == 0 || q->offset_bytes % q->align_bytes != 0)
            return false;
        end = q->offset_bytes + q->n_bytes;
        if (q->kind == PL_PLAN_TENSOR_MAP && q->map >= p->maps.n)
            return false;
    }
    return end <= p->launch.params_bytes;
}

bool pl_plan_verify(const struct pl_plan *plan, struct pl_buf *faults)
{
    struct pl_arena scratch = {0};
    struct verify v = {.plan = plan, .steps = &plan->steps, .out = faults, .ok = true};
    bool has_memory = (v.is_placed = pl_arena_alloc(&scratch, plan->steps.n_labels + 1)) != NULL;
    for (int c = 0; c < PL_RC_COUNT; c++)
        has_memory &=
            (v.is_written[c] = pl_arena_alloc(&scratch, plan->steps.n_regs[c] + 1)) != NULL;
    if (has_memory) {
        for (v.at = 0; v.at < plan->steps.list.n; v.at++)
            check_step(&v, &plan->steps.list.data[v.at]);
        for (v.at = 0; v.at < plan->steps.list.n; v.at++) {
            const struct pl_step *s = &plan->steps.list.data[v.at];
            if (s->op == PL_STEP_jump && !v.is_placed[plan->steps.pool.data[s->opnds].u.index])
                fault(&v, "jump to a label that stands nowhere");
        }
    }
    if (!areas_are_disjoint(plan) || !params_are_disjoint(plan)) {
        v.ok = false;
        if (faults != NULL)
            pl_buf_puts(faults, "areas or parameters overlap, are misaligned or too large\n");
    }
    pl_arena_fini(&scratch);
    return v.ok;
}
