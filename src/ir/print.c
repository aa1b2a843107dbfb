#include "src/ir/print.h"

#include "base/debug.h"

#include <string.h>

/* ---- words ---- */

#define WORD_FUNCTION(function, T, ...)                                                            \
    const char *function(T i)                                                                      \
    {                                                                                              \
        static const char *const words[] = {__VA_ARGS__};                                          \
        return (unsigned)i < PL_COUNT(words) ? words[i] : NULL;                                    \
    }
WORD_FUNCTION(pl_ir_layout_word, pl_layout_kind, "auto", "strided", "splat", "wgmma", "wgmma_8bit",
              "wgmma_upcast_2x", "wgmma_upcast_4x", "tcgen05", "tmem_native", "mma_a", "mma_b",
              "mma_acc")
WORD_FUNCTION(pl_ir_scope_word, pl_scope, "warp", "warpgroup", "cta", "cluster", "gpu", "system")
WORD_FUNCTION(pl_ir_view_word, enum pl_view_kind, "root", "at", "window", "tile", "clip",
              "transpose", "reshape", "peer", "semaphore")
WORD_FUNCTION(pl_ir_atomic_word, pl_atomic, "add", "min", "max", "and", "or", "xor", "exch", "cas")
WORD_FUNCTION(pl_ir_fence_word, pl_fence_kind, "async", "cta", "cluster", "gpu", "system")
WORD_FUNCTION(pl_ir_by_word, pl_by, "copies", "mma", "threads", "copy_out")

const char *pl_ir_shape_text(struct pl_arena *arena, const pl_shape *s)
{
    struct pl_buf t;
    pl_buf_init(&t, arena, 48);
    if (s->rank == 0)
        pl_buf_puts(&t, "()");
    for (int i = 0; i < s->rank; i++) {
        if (i != 0)
            pl_buf_putc(&t, 'x');
        if (s->d[i] < 0)
            pl_buf_putc(&t, '?');
        else
            pl_buf_i64(&t, s->d[i]);
    }
    return t.text != NULL ? t.text : "";
}

/* ---- state: dense numbers of what was printed so far ---- */

struct printer {
    const struct pl_fn *fn;
    struct pl_buf *out;
    uint32_t *vals, *refs, *bars;
    uint32_t n_vals, n_refs, n_bars;
    int depth;
};

static uint32_t number(uint32_t *map, uint32_t *n, uint32_t id)
{
    if (map[id] == 0)
        map[id] = ++*n;
    return map[id];
}

static void put_id(struct printer *p, char sigil, uint32_t *map, uint32_t *n, uint32_t id)
{
    pl_buf_putc(p->out, sigil);
    pl_buf_u64(p->out, id == 0 ? 0 : number(map, n, id));
}

static void put_val(struct printer *p, uint32_t id) { put_id(p, '%', p->vals, &p->n_vals, id); }
static void put_ref(struct printer *p, uint32_t id) { put_id(p, '$', p->refs, &p->n_refs, id); }
static void put_bar(struct printer *p, uint32_t id) { put_id(p, '!', p->bars, &p->n_bars, id); }

static void put_int(struct printer *p, const char *key, int64_t v)
{
    if (v != 0)
        pl_buf_printf(p->out, " %s=%lld", key, (long long)v);
}

static void put_word(struct printer *p, const char *key, const char *word)
{
    pl_buf_printf(p->out, " %s=%s", key, word);
}
static void put_flag(struct printer *p, const char *key, bool is_set)
{
    if (is_set)
        pl_buf_printf(p->out, " %s", key);
}

static void put_shape(struct printer *p, const pl_shape *s)
{
    pl_buf_putc(p->out, '[');
    for (int i = 0; i < s->rank; i++) {
        if (i != 0)
            pl_buf_putc(p->out, ',');
        if (s->d[i] < 0)
            pl_buf_putc(p->out, '?');
        else
            pl_buf_i64(p->out, s->d[i]);
    }
    pl_buf_putc(p->out, ']');
}

static void put_double(struct printer *p, const char *key, double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (bits == 0)
        return;
    pl_buf_printf(p->out, " %s=0d", key);
    pl_buf_hex(p->out, bits, 16);
}

static void put_layout(struct printer *p, const pl_layout *l)
{
    if (l->kind == PL_LAYOUT_AUTO && l->vec == 0 && l->reduced_axes == 0)
        return;
    pl_buf_printf(p->out, " layout=%s/%d/%u", pl_ir_layout_word(l->kind), l->vec, l->reduced_axes);
}

/* ---- declarations ---- */

static void put_array(struct printer *p, const struct pl_op *op)
{
    const struct pl_array *a = pl_ir_array_of(p->fn, op->refs[0]);
    put_ref(p, op->refs[0]);
    if (a->param >= 0) {
        pl_buf_printf(p->out, " = param %d", a->param);
        return;
    }
    pl_buf_printf(p->out, " = array %s %s ", pl_space_infos[a->space].name,
                  pl_dtype_name(a->dtype));
    put_shape(p, &a->shape);
    if (a->tr.tile_rows != 0 || a->tr.tile_cols != 0)
        pl_buf_printf(p->out, " tile=%d/%d", a->tr.tile_rows, a->tr.tile_cols);
    put_int(p, "swizzle", a->tr.swizzle_bytes);
    put_flag(p, "transposed", a->tr.is_transposed != 0);
    put_layout(p, &a->layout);
    put_flag(p, "pair", a->is_pair);
    if (a->alias_of != 0) {
        pl_buf_puts(p->out, " over=");
        put_ref(p, p->fn->arrays.data[a->alias_of].ref);
    }
    if (op->n_args > 0) {
        pl_buf_puts(p->out, " init=");
        put_val(p, op->args[0]);
    }
}

static void put_view(struct printer *p, const struct pl_op *op)
{
    const struct pl_ref_info *r = pl_ir_ref(p->fn, op->refs[0]);
    put_ref(p, op->refs[0]);
    pl_buf_printf(p->out, " = %s ", pl_ir_view_word(r->view));
    put_ref(p, r->parent);
    for (int i = 0; i < r->n_args; i++) {
        pl_buf_putc(p->out, ' ');
        put_val(p, r->args[i]);
    }
    if (r->view == PL_VIEW_WINDOW || r->view == PL_VIEW_TILE || r->view == PL_VIEW_RESHAPE) {
        pl_buf_putc(p->out, ' ');
        put_shape(p, &r->shape);
    }
    put_int(p, "axis", r->view == PL_VIEW_CLIP ? r->axis : 0);
}

static void put_group(struct printer *p, const struct pl_op *op)
{
    const struct pl_bar_group *g = pl_ir_group_of(p->fn, op->bar);
    put_bar(p, op->bar);
    pl_buf_printf(p->out, " = barriers n=%d arrivals=%d", g->n_barriers, g->n_arrivals);
    put_flag(p, "ready", g->starts_ready);
    put_flag(p, "tensor_core", g->orders_tensor_core);
    put_flag(p, "cluster", g->is_cluster);
    put_flag(p, "leader", g->at == PL_LEADER);
}

static void put_pipe(struct printer *p, const struct pl_op *op)
{
    const struct pl_pipe_info *i = &p->fn->pipes.data[op->pipe];
    pl_buf_printf(p->out, "#%u = pipe ", op->pipe);
    put_bar(p, i->full_bar);
    pl_buf_putc(p->out, ' ');
    put_bar(p, i->empty_bar);
    const uint32_t slots[3] = {i->producer_slot, i->consumer_slot, i->held_slot};
    for (int s = 0; s < 3; s++) {
        pl_buf_putc(p->out, ' ');
        put_ref(p, slots[s]);
    }
    put_int(p, "stages", i->desc.stages);
    put_word(p, "producer", pl_ir_by_word(i->desc.producer));
    put_word(p, "consumer", pl_ir_by_word(i->desc.consumer));
    put_int(p, "producers", i->desc.n_producers);
    put_int(p, "consumers", i->desc.n_consumers);
    put_int(p, "lag", i->desc.lag);
}

/* ---- ops ---- */

static void put_name(struct printer *p, const struct pl_op *op)
{
    if (op->code == PL_OP_UNARY)
        pl_buf_puts(p->out, pl_op1_name((pl_op1)op->sub));
    else if (op->code == PL_OP_BINARY)
        pl_buf_puts(p->out, pl_op2_name((pl_op2)op->sub));
    else
        pl_buf_puts(p->out, pl_op_infos[op->code].name);
}

static void put_sub(struct printer *p, const struct pl_op *op)
{
    if (op->code == PL_OP_UNARY || op->code == PL_OP_BINARY)
        return;
    if (op->code == PL_OP_ATOMIC)
        put_word(p, "op", pl_ir_atomic_word((pl_atomic)op->sub));
    else if (op->code == PL_OP_FENCE)
        put_word(p, "op", pl_ir_fence_word((pl_fence_kind)op->sub));
    else if (op->sub != PL_OP2_NONE)
        put_word(p, "op", pl_op2_name((pl_op2)op->sub));
}

static void put_text(struct printer *p, const char *text)
{
    pl_buf_puts(p->out, " text=\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            pl_buf_putc(p->out, '\\');
        if (*text == '\n')
            pl_buf_puts(p->out, "\\n");
        else
            pl_buf_putc(p->out, *text);
    }
    pl_buf_putc(p->out, '"');
}

static void put_operands(struct printer *p, const struct pl_op *op)
{
    int n_refs = PL_OP_MAX_REFS;
    while (n_refs > 0 && op->refs[n_refs - 1] == 0)
        n_refs--;
    for (int i = 0; i < n_refs; i++) {
        pl_buf_putc(p->out, ' ');
        put_ref(p, op->refs[i]);
    }
    for (uint32_t i = 0; i < op->n_args; i++) {
        pl_buf_putc(p->out, ' ');
        put_val(p, op->args[i]);
    }
    if (op->bar != 0) {
        pl_buf_putc(p->out, ' ');
        put_bar(p, op->bar);
    }
    if (op->pipe != 0)
        pl_buf_printf(p->out, " #%u", op->pipe);
}

static void put_attributes(struct printer *p, const struct pl_op *op)
{
    put_sub(p, op);
    put_int(p, "axis", op->axis);
    put_int(p, "n", op->n);
    if (op->scope != PL_SCOPE_WARP)
        put_word(p, "scope", pl_ir_scope_word(op->scope));
    put_int(p, "oob", (int64_t)op->oob);
    put_int(p, "how", (int64_t)op->how);
    put_int(p, "mask", op->mask);
    put_flag(p, "flag", op->is_flag);
    put_int(p, "i", op->i);
    put_double(p, "f", op->f);
    put_layout(p, &op->layout);
    put_flag(p, "index", op->is_index);
    if (op->text != NULL)
        put_text(p, op->text);
}

static void put_op(struct printer *p, uint32_t id, const struct pl_op *op)
{
    if (op->code == PL_OP_ARRAY)
        put_array(p, op);
    else if (op->code == PL_OP_VIEW)
        put_view(p, op);
    else if (op->code == PL_OP_BARRIERS)
        put_group(p, op);
    else if (op->code == PL_OP_PIPE)
        put_pipe(p, op);
    else {
        if (op->code == PL_OP_BAR_AT) {
            put_bar(p, op->bar);
            pl_buf_puts(p->out, " = ");
        } else if (op->dtype != PL_DTYPE_NONE) {
            put_val(p, id);
            pl_buf_puts(p->out, " = ");
        }
        put_name(p, op);
        if (op->dtype != PL_DTYPE_NONE) {
            pl_buf_printf(p->out, " %s", pl_dtype_name(op->dtype));
            if (op->shape.rank > 0)
                put_shape(p, &op->shape);
        }
        if (op->code == PL_OP_BAR_AT) { /* the group is printed by its first barrier */
            uint32_t group = p->fn->bars.data[op->bar].group, bar = 1;
            while (p->fn->bars.data[bar].group != group)
                bar++;
            pl_buf_putc(p->out, ' ');
            put_bar(p, bar);
            pl_buf_putc(p->out, ' ');
            put_val(p, op->args[0]);
        } else {
            put_operands(p, op);
        }
        put_attributes(p, op);
    }
}

static void indent(struct printer *p) { pl_buf_printf(p->out, "%*s", 2 * p->depth, ""); }

static void put_block(struct printer *p, uint32_t block)
{
    for (PL_IR_FOREACH(p->fn, block, id)) {
        const struct pl_op *op = pl_ir_op(p->fn, id);
        indent(p);
        put_op(p, id, op);
        if (op->regions[0] != 0)
            pl_buf_puts(p->out, " {");
        else if (op->dtype != PL_DTYPE_NONE && op->shape.rank == 0 && op->level != PL_LEVEL_GRID)
            pl_buf_printf(p->out, " ; %s", pl_level_name(op->level));
        pl_buf_putc(p->out, '\n');
        for (int i = 0; i < 2 && op->regions[i] != 0; i++) {
            p->depth++;
            put_block(p, op->regions[i]);
            p->depth--;
            indent(p);
            pl_buf_puts(p->out, i == 0 && op->regions[1] != 0 ? "} else {\n" : "}\n");
        }
    }
}

static void put_arg(struct printer *p, size_t i)
{
    static const char *const roles[] = {"in", "out", "inout", "scalar"};
    const struct pl_arg_facts *a = &p->fn->request.args[i];
    const pl_param_decl *param = &p->fn->request.kernel->params[i];
    pl_buf_printf(p->out, "arg %s ", param->name);
    if (!a->is_present) {
        pl_buf_puts(p->out, "absent");
    } else if (a->is_scalar) {
        pl_buf_printf(p->out, "scalar %s", pl_dtype_name(a->dtype));
    } else {
        pl_shape s = {.rank = a->rank};
        memcpy(s.d, a->dims, sizeof s.d);
        pl_buf_printf(p->out, "%s %s", roles[param->role], pl_dtype_name(a->dtype));
        put_shape(p, &s);
        put_int(p, "facts", a->facts);
        put_int(p, "like", a->like);
        if (param->is_constant)
            pl_buf_puts(p->out, " constant");
    }
    pl_buf_putc(p->out, '\n');
}

static void put_request(struct printer *p)
{
    const struct pl_trace_request *r = &p->fn->request;
    pl_buf_printf(p->out, "kernel %s sm_%d\n", r->kernel->name, r->target->arch);
    for (size_t i = 0; i < r->n_args; i++)
        put_arg(p, i);
    const int32_t *c = p->fn->cluster;
    if (p->fn->n_warpgroups != 1)
        pl_buf_printf(p->out, "warpgroups %d\n", p->fn->n_warpgroups);
    if (c[0] * c[1] * c[2] != 1)
        pl_buf_printf(p->out, "cluster %d %d %d\n", c[0], c[1], c[2]);
}

void pl_ir_print(const struct pl_fn *fn, struct pl_buf *out)
{
    struct printer p = {.fn = fn, .out = out};
    p.vals = pl_arena_array(out->arena, fn->ops.n + 1, sizeof p.vals[0]);
    p.refs = pl_arena_array(out->arena, fn->refs.n + 1, sizeof p.refs[0]);
    p.bars = pl_arena_array(out->arena, fn->bars.n + 1, sizeof p.bars[0]);
    if (p.vals == NULL || p.refs == NULL || p.bars == NULL)
        return;
    put_request(&p);
    put_block(&p, 1);
}
