/* Text form of a plan. One line a fact, one line a step; read.c reads it back. */
#include "src/plan/plan.h"

#include "base/debug.h"

const char *const pl_plan_param_names[PL_PLAN_PARAM_KIND_COUNT] = {
    "address", "extent", "stride", "scalar", "map", "grid", "workspace"};
static const char class_letters[PL_RC_COUNT] = {'p', 'h', 'r', 'q', 'o'};

static void put_field(struct pl_buf *out, const char *name, uint64_t v)
{
    pl_buf_putc(out, ' ');
    pl_buf_puts(out, name);
    pl_buf_putc(out, ' ');
    pl_buf_u64(out, v);
}

static void put_quoted(struct pl_buf *out, const char *s)
{
    pl_buf_putc(out, '"');
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            pl_buf_putc(out, '\\');
        if (*s == '\n')
            pl_buf_puts(out, "\\n");
        else
            pl_buf_putc(out, *s);
    }
    pl_buf_putc(out, '"');
}

static void put_reg(struct pl_buf *out, pl_reg r)
{
    pl_buf_putc(out, class_letters[pl_reg_class(r)]);
    pl_buf_u64(out, pl_reg_index(r));
}

static void put_opnd(const struct pl_steps *s, const struct pl_opnd *o, struct pl_buf *out)
{
    if (o->is_negated)
        pl_buf_putc(out, '!');
    switch ((enum pl_opnd_kind)o->kind) {
    case PL_OPND_NONE: pl_buf_putc(out, '_'); break;
    case PL_OPND_REG: put_reg(out, o->u.reg); break;
    case PL_OPND_IMM:
        pl_buf_putc(out, '#');
        pl_buf_i64(out, o->imm);
        break;
    case PL_OPND_ADDR:
        pl_buf_putc(out, '[');
        if (o->u.reg.id != 0)
            put_reg(out, o->u.reg);
        else
            pl_buf_puts(out, "smem");
        pl_buf_putc(out, ' ');
        pl_buf_i64(out, o->imm);
        pl_buf_putc(out, ']');
        break;
    case PL_OPND_LIST:
        pl_buf_putc(out, '{');
        for (uint32_t i = 0; i < o->n; i++) {
            if (i != 0)
                pl_buf_putc(out, ' ');
            put_opnd(s, &s->pool.data[o->u.index + i], out);
        }
        pl_buf_putc(out, '}');
        break;
    case PL_OPND_LABEL:
        pl_buf_putc(out, 'L');
        pl_buf_u64(out, o->u.index);
        break;
    case PL_OPND_PARAM:
        pl_buf_putc(out, 'P');
        pl_buf_u64(out, o->u.index);
        break;
    case PL_OPND_SREG:
        pl_buf_putc(out, '$');
        pl_buf_puts(out, pl_ssreg_names[o->u.index]);
        break;
    case PL_OPND_TEXT:
        pl_buf_putc(out, 'T');
        pl_buf_u64(out, o->u.index);
        break;
    }
}

static void put_step(const struct pl_steps *s, const struct pl_step *step, struct pl_buf *out)
{
    pl_buf_puts(out, step->op == PL_STEP_label ? " " : "    ");
    if (step->guard.id != 0) {
        pl_buf_puts(out, step->guard_is_negated ? "@!" : "@");
        put_reg(out, step->guard);
        pl_buf_putc(out, ' ');
    }
    pl_buf_puts(out, pl_step_infos[step->op].name);
    for (int i = 0; i < PL_STEP_MAX_ATTRS; i++)
        if (step->attrs[i] != PL_SA_NONE) {
            pl_buf_putc(out, '.');
            pl_buf_puts(out, pl_sattrs[step->attrs[i]].text);
        }
    if (step->type != PL_ST_NONE) {
        pl_buf_putc(out, ' ');
        pl_buf_puts(out, pl_stypes[step->type].name);
        if (step->from != PL_ST_NONE) {
            pl_buf_putc(out, '<');
            pl_buf_puts(out, pl_stypes[step->from].name);
        }
    }
    for (uint32_t i = 0; i < step->n_opnds; i++) {
        pl_buf_putc(out, ' ');
        put_opnd(s, &s->pool.data[step->opnds + i], out);
    }
    pl_buf_putc(out, '\n');
}

static void put_params(const struct pl_plan *p, struct pl_buf *out)
{
    for (uint32_t i = 0; i < p->params.n; i++) {
        const struct pl_plan_param *q = &p->params.data[i];
        pl_buf_puts(out, "param ");
        pl_buf_puts(out, pl_plan_param_names[q->kind]);
        put_field(out, "arg", q->arg);
        put_field(out, "axis", q->axis);
        put_field(out, "map", q->map);
        put_field(out, "offset", q->offset_bytes);
        put_field(out, "bytes", q->n_bytes);
        put_field(out, "align", q->align_bytes);
        pl_buf_putc(out, '\n');
    }
}

static void put_maps(const struct pl_plan *p, struct pl_buf *out)
{
    static const uint8_t spans[] = {0, 32, 64, 128, 132}; /* 132: 128 in atoms of 32 */
    for (uint32_t i = 0; i < p->maps.n; i++) {
        const struct pl_plan_map *m = &p->maps.data[i];
        pl_buf_puts(out, "map ");
        pl_buf_puts(out, pl_dtype_name(m->dtype));
        put_field(out, "arg", m->arg);
        put_field(out, "swizzle", spans[m->swizzle]);
        put_field(out, "l2", m->l2_bytes);
        put_field(out, "nan", m->fills_nan);
        put_field(out, "rank", m->rank);
        for (int d = 0; d < m->rank; d++) {
            put_field(out, "axis", m->axes[d]);
            put_field(out, "box", m->box_elems[d]);
        }
        pl_buf_putc(out, '\n');
    }
}

void pl_plan_print(const struct pl_plan *p, struct pl_buf *out)
{
    pl_buf_puts(out, "plan ");
    pl_buf_puts(out, p->kernel);
    put_field(out, "sm", p->sm);
    pl_buf_puts(out, "\nlaunch");
    put_field(out, "threads", p->launch.n_threads);
    put_field(out, "x", p->launch.cluster[0]);
    put_field(out, "y", p->launch.cluster[1]);
    put_field(out, "z", p->launch.cluster[2]);
    put_field(out, "smem", p->launch.smem_bytes);
    put_field(out, "params", p->launch.params_bytes);
    put_field(out, "registers", p->launch.max_registers);
    put_field(out, "fold", p->launch.can_fold_grid);
    put_field(out, "waits", p->launch.waits_for_predecessor);
    pl_buf_putc(out, '\n');
    put_params(p, out);
    put_maps(p, out);
    for (uint32_t i = 0; i < p->areas.n; i++) {
        pl_buf_puts(out, "area ");
        pl_buf_puts(out, p->areas.data[i].name);
        put_field(out, "offset", p->areas.data[i].offset_bytes);
        put_field(out, "bytes", p->areas.data[i].n_bytes);
        put_field(out, "align", p->areas.data[i].align_bytes);
        pl_buf_putc(out, '\n');
    }
    for (uint32_t i = 0; i < p->columns.n; i++) {
        pl_buf_puts(out, "columns ");
        pl_buf_puts(out, p->columns.data[i].name);
        put_field(out, "first", p->columns.data[i].first);
        put_field(out, "n", p->columns.data[i].n);
        put_field(out, "of", p->launch.tmem_columns);
        pl_buf_putc(out, '\n');
    }
    for (uint32_t i = 0; i < p->notes.n; i++) {
        pl_buf_puts(out, "note ");
        put_quoted(out, p->notes.data[i].file);
        pl_buf_putc(out, ' ');
        pl_buf_i64(out, p->notes.data[i].line);
        pl_buf_putc(out, ' ');
        put_quoted(out, p->notes.data[i].text);
        pl_buf_putc(out, '\n');
    }
    for (uint32_t i = 0; i < p->steps.texts.n; i++) {
        pl_buf_puts(out, "text ");
        put_quoted(out, p->steps.texts.data[i].file);
        pl_buf_putc(out, ' ');
        pl_buf_i64(out, p->steps.texts.data[i].line);
        pl_buf_putc(out, ' ');
        put_quoted(out, p->steps.texts.data[i].text);
        pl_buf_putc(out, '\n');
    }
    pl_buf_puts(out, "steps");
    put_field(out, "pred", p->steps.n_regs[PL_RC_PRED]);
    put_field(out, "b16", p->steps.n_regs[PL_RC_B16]);
    put_field(out, "b32", p->steps.n_regs[PL_RC_B32]);
    put_field(out, "b64", p->steps.n_regs[PL_RC_B64]);
    put_field(out, "b128", p->steps.n_regs[PL_RC_B128]);
    put_field(out, "labels", p->steps.n_labels);
    pl_buf_putc(out, '\n');
    for (uint32_t i = 0; i < p->steps.list.n; i++)
        put_step(&p->steps, &p->steps.list.data[i], out);
}
