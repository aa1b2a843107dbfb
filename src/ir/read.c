#include "src/ir/read_token.h"

#include "src/ir/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

static pl_loc here(struct pl_reader *r) { return pl_loc_make(r->file, r->line); }

static void read_array(struct pl_reader *r, int64_t number)
{
    char w[48];
    struct pl_array a = {.param = -1, .loc = here(r)};
    uint32_t init = 0;
    pl_read_take_word(r, w);
    for (int i = 1; i < PL_SPACE_COUNT; i++)
        if (strcmp(w, pl_space_infos[i].name) == 0 && pl_space_infos[i].is_local)
            a.space = (enum pl_space)i;
    if (a.space == PL_SPACE_NONE)
        pl_read_fail(r, "'%s' is not a space to allocate in", w);
    a.dtype = pl_read_dtype(r);
    a.shape = pl_read_shape(r, false);
    while (r->is_ok && !pl_read_at_line_end(r)) {
        pl_read_take_word(r, w);
        if (strcmp(w, "transposed") == 0) {
            a.tr.is_transposed = 1;
            continue;
        }
        if (strcmp(w, "pair") == 0) {
            a.is_pair = true;
            continue;
        }
        pl_read_char(r, '=');
        if (strcmp(w, "tile") == 0) {
            a.tr.tile_rows = (int32_t)pl_read_int(r, INT32_MIN, INT32_MAX);
            pl_read_char(r, '/');
            a.tr.tile_cols = (int32_t)pl_read_int(r, INT32_MIN, INT32_MAX);
        } else if (strcmp(w, "swizzle") == 0) {
            a.tr.swizzle_bytes = (int32_t)pl_read_int(r, INT32_MIN, INT32_MAX);
        } else if (strcmp(w, "layout") == 0) {
            a.layout = pl_read_layout(r);
        } else if (strcmp(w, "over") == 0) {
            uint32_t over = pl_read_ref(r);
            a.alias_of = over == 0 ? 0 : r->fn->refs.data[over].array;
        } else if (strcmp(w, "init") == 0) {
            init = pl_read_val(r);
        } else {
            pl_read_fail(r, "unknown attribute '%s'", w);
        }
    }
    pl_read_define(r, '$', number, r->is_ok ? pl_trace_array(&r->b, &a, init, here(r)) : 0);
}

static void read_param(struct pl_reader *r, int64_t number)
{
    int64_t i = pl_read_int(r, 0, PL_MAX_ARGS - 1);
    pl_read_define(r, '$', number, r->fn->param_refs[i]);
    if (r->fn->param_refs[i] == 0)
        pl_read_fail(r, "argument %lld is not a tensor", (long long)i);
}

static void read_view(struct pl_reader *r, enum pl_view_kind view, int64_t number)
{
    struct pl_ref_info want = {.view = view, .parent = pl_read_ref(r)};
    bool has_shape = view == PL_VIEW_WINDOW || view == PL_VIEW_TILE || view == PL_VIEW_RESHAPE;
    while (r->is_ok && (pl_read_skip_blanks(r), *r->p == '%') && want.n_args < PL_MAX_RANK)
        want.args[want.n_args++] = pl_read_val(r);
    if (has_shape)
        want.shape = pl_read_shape(r, false);
    if (!pl_read_at_line_end(r)) {
        char w[48];
        pl_read_take_word(r, w);
        pl_read_char(r, '=');
        want.axis = (int32_t)pl_read_int(r, 0, PL_MAX_RANK - 1);
    }
    if (!r->is_ok || want.parent == 0)
        return;
    int32_t rank = pl_ir_ref(r->fn, want.parent)->shape.rank;
    bool is_window = view == PL_VIEW_WINDOW || view == PL_VIEW_TILE;
    int32_t n_args = is_window                                                            ? rank
                     : view == PL_VIEW_AT || view == PL_VIEW_CLIP || view == PL_VIEW_PEER ? 1
                                                                                          : 0;
    bool has_axes = rank >= (view == PL_VIEW_TRANSPOSE ? 2
                             : view == PL_VIEW_AT      ? 1
                                                       : 0) &&
                    want.axis < (rank > 0 ? rank : 1);
    if (want.n_args != n_args || (is_window && want.shape.rank != rank) || !has_axes) {
        pl_read_fail(r, "operands of a view");
        return;
    }
    uint32_t id = pl_trace_view(&r->b, &want, here(r));
    if (id == 0)
        pl_read_fail(r, "a view that cannot be: see the diagnostics");
    pl_read_define(r, '$', number, id);
}

static void read_group(struct pl_reader *r, int64_t number)
{
    char w[48];
    struct pl_bar_group g = {.n_barriers = 1, .n_arrivals = 1};
    while (r->is_ok && !pl_read_at_line_end(r)) {
        pl_read_take_word(r, w);
        if (strcmp(w, "ready") == 0)
            g.starts_ready = true;
        else if (strcmp(w, "tensor_core") == 0)
            g.orders_tensor_core = true;
        else if (strcmp(w, "cluster") == 0)
            g.is_cluster = true;
        else if (strcmp(w, "leader") == 0)
            g.at = PL_LEADER;
        else {
            pl_read_char(r, '=');
            int32_t v = (int32_t)pl_read_int(r, 1, 1 << 13);
            if (strcmp(w, "n") == 0)
                g.n_barriers = v <= 32 ? v : (pl_read_fail(r, "at most 32 barriers"), 1);
            else if (strcmp(w, "arrivals") == 0)
                g.n_arrivals = v;
            else
                pl_read_fail(r, "unknown attribute '%s'", w);
        }
    }
    pl_read_define(r, '!', number, pl_trace_group(&r->b, &g, here(r)));
}

static void read_bar_at(struct pl_reader *r, int64_t number)
{
    uint32_t group = pl_read_bar(r), index = pl_read_val(r);
    pl_bar bar = r->is_ok ? pl_bar_at_at(&r->b, (pl_bar){group}, pl_trace_val(index), here(r))
                          : pl_bar_none();
    if (bar.id == 0)
        pl_read_fail(r, "an index that cannot be");
    pl_read_define(r, '!', number, bar.id);
}

static void read_pipe(struct pl_reader *r)
{
    char w[48];
    struct pl_pipe_info p = {.n_produce_copies = -1, .loc = here(r)};
    p.full_bar = pl_read_bar(r);
    p.empty_bar = pl_read_bar(r);
    p.producer_slot = pl_read_ref(r);
    p.consumer_slot = pl_read_ref(r);
    p.held_slot = pl_read_ref(r);
    while (r->is_ok && !pl_read_at_line_end(r)) {
        pl_read_take_word(r, w);
        pl_read_char(r, '=');
        if (strcmp(w, "producer") == 0)
            p.desc.producer = (pl_by)pl_read_word(r, pl_read_find_by);
        else if (strcmp(w, "consumer") == 0)
            p.desc.consumer = (pl_by)pl_read_word(r, pl_read_find_by);
        else if (strcmp(w, "stages") == 0)
            p.desc.stages = (int32_t)pl_read_int(r, 1, 32);
        else if (strcmp(w, "producers") == 0)
            p.desc.n_producers = (int32_t)pl_read_int(r, 0, 64);
        else if (strcmp(w, "consumers") == 0)
            p.desc.n_consumers = (int32_t)pl_read_int(r, 0, 64);
        else if (strcmp(w, "lag") == 0)
            p.desc.lag = (int32_t)pl_read_int(r, 0, 1);
        else
            pl_read_fail(r, "unknown attribute '%s'", w);
    }
    if (!r->is_ok || p.full_bar == 0 || p.empty_bar == 0) {
        pl_read_fail(r, "a pipe without barriers");
        return;
    }
    uint32_t id;
    struct pl_op *op = pl_trace_add(&r->b, PL_OP_PIPE, here(r), &id);
    struct pl_pipe_info *out = pl_vec_push(r->arena, &r->fn->pipes);
    if (op == NULL || out == NULL)
        return;
    op->pipe = r->fn->pipes.n - 1;
    p.full = r->fn->bars.data[p.full_bar].group;
    p.empty = r->fn->bars.data[p.empty_bar].group;
    p.desc.full_at = r->fn->groups.data[p.full].at;
    p.desc.empty_at = r->fn->groups.data[p.empty].at;
    r->fn->groups.data[p.full].pipe = r->fn->groups.data[p.empty].pipe = op->pipe;
    r->fn->groups.data[p.full].is_full = true;
    *out = p;
}

static enum pl_opcode find_op(const char *w, int32_t *sub)
{
    *sub = 0;
    for (int i = 1; i < PL_OP_COUNT; i++)
        if (strcmp(w, pl_op_infos[i].name) == 0 && i != PL_OP_UNARY && i != PL_OP_BINARY)
            return (enum pl_opcode)i;
    int op1 = pl_read_find_op1(w), op2 = pl_read_find_op2(w);
    *sub = op1 > 0 ? op1 : op2 > 0 ? op2 : 0;
    return op1 > 0 ? PL_OP_UNARY : op2 > 0 ? PL_OP_BINARY : PL_OP_NONE;
}

static void note_uses(struct pl_reader *r, const struct pl_op *op)
{
    if (op->bar != 0) {
        struct pl_bar_group *g = &r->fn->groups.data[r->fn->bars.data[op->bar].group];
        g->n_copy_arrivals += op->code == PL_OP_COPY_IN || op->code == PL_OP_ASYNC_STORE_SMEM ||
                              op->code == PL_OP_GATHER_ROWS;
        g->n_unit_arrivals += op->code == PL_OP_BARRIER_ARRIVE;
        g->n_mma_arrivals += op->code == PL_OP_TCGEN05_COMMIT;
    }
}

static void open_region(struct pl_reader *r, uint32_t id)
{
    static const struct {
        enum pl_opcode code;
        enum pl_block_kind kind;
    } kinds[] = {{PL_OP_FOR, PL_BLOCK_FOR},         {PL_OP_LOOP, PL_BLOCK_LOOP},
                 {PL_OP_IF, PL_BLOCK_IF},           {PL_OP_PRODUCE, PL_BLOCK_PRODUCE},
                 {PL_OP_CONSUME, PL_BLOCK_CONSUME}, {PL_OP_ROLE, PL_BLOCK_ROLE}};
    const struct pl_op op = *pl_ir_op(r->fn, id);
    enum pl_block_kind kind = PL_BLOCK_BODY;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        kind = kinds[i].code == op.code ? kinds[i].kind : kind;
    if (kind == PL_BLOCK_BODY) {
        pl_read_fail(r, "only regions have a block");
        return;
    }
    uint32_t block = pl_trace_open(&r->b, kind == PL_BLOCK_IF ? PL_OPEN_IF : PL_OPEN_PLAIN, kind,
                                   id, 0, here(r));
    if (block == 0)
        return;
    r->b.opens.data[r->b.open].has_break = true; /* the builder's question, not this text's */
    if (kind == PL_BLOCK_ROLE) {
        r->fn->blocks.data[block].role_warpgroup = op.n;
        r->fn->blocks.data[block].n_role_warpgroups = op.mask > 1 ? (int32_t)op.mask : 1;
        r->fn->blocks.data[block].role_warp = op.axis;
    }
    if (op.pipe != 0 && kind == PL_BLOCK_PRODUCE)
        r->fn->pipes.data[op.pipe].producer_block = block;
    if (op.pipe != 0 && kind == PL_BLOCK_CONSUME)
        r->fn->pipes.data[op.pipe].consumer_block = block;
}

static void read_operands(struct pl_reader *r, struct pl_op *op)
{
    int n_refs = 0;
    for (pl_read_skip_blanks(r); r->is_ok; pl_read_skip_blanks(r)) {
        if (*r->p == '%' && op->n_args < PL_OP_MAX_ARGS)
            op->args[op->n_args++] = pl_read_val(r);
        else if (*r->p == '$' && n_refs < PL_OP_MAX_REFS)
            op->refs[n_refs++] = pl_read_ref(r);
        else if (*r->p == '!')
            op->bar = pl_read_bar(r);
        else if (*r->p == '#')
            op->pipe = pl_read_pipe(r);
        else
            break;
    }
}

/* Operand kinds that later passes rely on without asking again. */
static void check_op(struct pl_reader *r, const struct pl_op *op)
{
    const struct pl_op_info *info = &pl_op_infos[op->code];
    bool needs_bar = op->code == PL_OP_COPY_IN || op->code == PL_OP_BARRIER_WAIT ||
                     op->code == PL_OP_BARRIER_ARRIVE || op->code == PL_OP_BARRIER_TEST ||
                     op->code == PL_OP_TCGEN05_COMMIT || op->code == PL_OP_ASYNC_STORE_SMEM ||
                     op->code == PL_OP_GATHER_ROWS;
    bool needs_pipe = op->code == PL_OP_PRODUCE || op->code == PL_OP_CONSUME;
    if ((int32_t)op->n_args < info->min_args || (int32_t)op->n_args > info->max_args)
        pl_read_fail(r, "%s takes %d to %d values", info->name, info->min_args, info->max_args);
    for (int32_t i = 0; i < info->min_args && r->is_ok; i++)
        if (op->args[i] == 0)
            pl_read_fail(r, "%s needs its operand %d", info->name, i);
    for (int i = 0; i < 3 && info->spaces[i] != 0 && op->code != PL_OP_ARRAY; i++)
        if (op->refs[i] == 0)
            pl_read_fail(r, "%s needs its ref %d", info->name, i);
    if ((needs_bar && op->bar == 0) || (needs_pipe && op->pipe == 0))
        pl_read_fail(r, "%s needs a barrier or a pipe", info->name);
    if ((op->code == PL_OP_PROGRAM_ID || op->code == PL_OP_NUM_PROGRAMS) &&
        (op->axis < 0 || op->axis > 2))
        pl_read_fail(r, "axis of %s", info->name);
    if ((op->code == PL_OP_SCALAR || op->code == PL_OP_DIM) &&
        (op->n < 0 || (size_t)op->n >= r->fn->request.n_args))
        pl_read_fail(r, "argument of %s", info->name);
}

static void read_op(struct pl_reader *r, const char *name, char sigil, int64_t number)
{
    struct pl_op op = {.loc = here(r)};
    op.code = find_op(name, &op.sub);
    if (op.code == PL_OP_NONE) {
        pl_read_fail(r, "unknown operation '%s'", name);
        return;
    }
    if (sigil == '%') {
        op.dtype = pl_read_dtype(r);
        if (*r->p == '[')
            op.shape = pl_read_shape(r, false);
    }
    read_operands(r, &op);
    bool opens = false;
    while (r->is_ok && !pl_read_at_line_end(r) && !opens) {
        char key[48];
        opens = pl_read_take_char(r, '{');
        if (opens)
            break;
        pl_read_take_word(r, key);
        pl_read_op_attribute(r, &op, key);
    }
    check_op(r, &op);
    if (!r->is_ok)
        return;
    if (op.code == PL_OP_IV || op.code == PL_OP_PTX_OUT) {
        const struct pl_block_info *block = &r->fn->blocks.data[r->b.block];
        op.owner = op.code == PL_OP_IV ? block->owner : block->last;
        if (op.code == PL_OP_PTX_OUT && op.owner != 0 &&
            pl_ir_op(r->fn, op.owner)->code == PL_OP_PTX_OUT)
            op.owner = pl_ir_op(r->fn, op.owner)->owner;
    }
    uint32_t id;
    struct pl_op *out = pl_trace_add(&r->b, op.code, op.loc, &id);
    if (out == NULL)
        return;
    op.block = out->block;
    *out = op;
    note_uses(r, &op);
    if (op.code == PL_OP_PROGRAM_ID || op.code == PL_OP_NUM_PROGRAMS)
        r->fn->uses_program_axis[op.axis] = true;
    if (sigil == '%')
        pl_read_define(r, sigil, number, id);
    if (opens)
        open_region(r, id);
    else if (pl_op_infos[op.code].result == PL_RESULT_REGION)
        pl_read_fail(r, "%s needs a block", name);
}

static void read_close(struct pl_reader *r)
{
    if (r->b.open == 0) {
        pl_read_fail(r, "'}' without a block");
        return;
    }
    uint32_t owner = r->fn->blocks.data[r->b.block].owner;
    bool is_if = r->fn->blocks.data[r->b.block].kind == PL_BLOCK_IF;
    pl_block k = {.b = &r->b, .id = r->b.open};
    pl_block_end(&k);
    if (pl_read_at_line_end(r))
        return;
    char w[48];
    pl_read_take_word(r, w);
    pl_read_char(r, '{');
    if (strcmp(w, "else") != 0 || !is_if)
        pl_read_fail(r, "'} else {' belongs to an if");
    if (r->is_ok)
        (void)pl_trace_open(&r->b, PL_OPEN_PLAIN, PL_BLOCK_ELSE, owner, 1, here(r));
}

static void read_line(struct pl_reader *r)
{
    char sigil = '\0', w[48];
    int64_t number = 0;
    pl_read_skip_blanks(r);
    if (pl_read_take_char(r, '}')) {
        read_close(r);
        return;
    }
    if (*r->p == '%' || *r->p == '$' || *r->p == '!' || *r->p == '#') {
        sigil = *r->p++;
        number = pl_read_int(r, 1, INT32_MAX);
        pl_read_char(r, '=');
    }
    pl_read_take_word(r, w);
    int view = pl_read_find_view(w);
    if (sigil == '$' && strcmp(w, "array") == 0)
        read_array(r, number);
    else if (sigil == '$' && strcmp(w, "param") == 0)
        read_param(r, number);
    else if (sigil == '$' && view > PL_VIEW_ROOT)
        read_view(r, (enum pl_view_kind)view, number);
    else if (sigil == '!' && strcmp(w, "barriers") == 0)
        read_group(r, number);
    else if (sigil == '!' && strcmp(w, "bar_at") == 0)
        read_bar_at(r, number);
    else if (sigil == '#' && strcmp(w, "pipe") == 0)
        read_pipe(r);
    else if (sigil == '%' || sigil == '\0')
        read_op(r, w, sigil, number);
    else
        pl_read_fail(r, "'%s' does not make that", w);
}

/* ---- the request ---- */

static void read_arg(struct pl_reader *r, struct pl_trace_request *req)
{
    char name[48], role[48];
    if (req->n_args == PL_MAX_ARGS) {
        pl_read_fail(r, "more than %d arguments", PL_MAX_ARGS);
        return;
    }
    struct pl_arg_facts *a = &req->args[req->n_args];
    pl_param_decl *p = &r->params[req->n_args++];
    pl_read_take_word(r, name);
    pl_read_take_word(r, role);
    p->name = pl_arena_strdup(r->arena, name);
    p->role = strcmp(role, "out") == 0      ? PL_ROLE_OUT
              : strcmp(role, "inout") == 0  ? PL_ROLE_INOUT
              : strcmp(role, "scalar") == 0 ? PL_ROLE_SCALAR
                                            : PL_ROLE_IN;
    if (strcmp(role, "absent") == 0)
        return;
    a->is_present = true;
    a->is_scalar = p->role == PL_ROLE_SCALAR;
    a->dtype = pl_read_dtype(r);
    if (a->is_scalar)
        return;
    pl_shape s = pl_read_shape(r, true);
    a->rank = s.rank;
    memcpy(a->dims, s.d, sizeof s.d);
    while (!pl_read_at_line_end(r) && r->is_ok) {
        pl_read_take_word(r, name);
        if (strcmp(name, "constant") == 0) {
            p->is_constant = true;
            continue;
        }
        pl_read_char(r, '=');
        if (strcmp(name, "like") == 0)
            a->like = p->like = (int16_t)pl_read_int(r, 1, (int64_t)req->n_args - 1);
        else
            a->facts = (pl_fact_set)pl_read_int(r, 0, 63);
    }
}

static void read_header(struct pl_reader *r, struct pl_trace_request *req, struct pl_fn *shape)
{
    char w[48], name[48];
    pl_kernel *kernel = PL_NEW(r->arena, pl_kernel);
    shape->n_warpgroups = 1;
    shape->cluster[0] = shape->cluster[1] = shape->cluster[2] = 1;
    for (; r->is_ok && *r->p != '\0'; pl_read_next_line(r)) {
        const char *start = r->p;
        if (pl_read_at_line_end(r))
            continue;
        pl_read_take_word(r, w);
        if (strcmp(w, "kernel") == 0) {
            pl_read_take_word(r, name);
            pl_read_take_word(r, w);
            req->target =
                strncmp(w, "sm_", 3) == 0 ? pl_target_find((int32_t)strtol(w + 3, NULL, 10)) : NULL;
        } else if (strcmp(w, "arg") == 0) {
            read_arg(r, req);
        } else if (strcmp(w, "warpgroups") == 0) {
            shape->n_warpgroups = (int32_t)pl_read_int(r, 1, 8);
        } else if (strcmp(w, "cluster") == 0) {
            for (int i = 0; i < 3; i++)
                shape->cluster[i] = (int32_t)pl_read_int(r, 1, 16);
        } else {
            r->p = start;
            break;
        }
    }
    if (req->target == NULL)
        pl_read_fail(r, "the text begins with: kernel NAME sm_NN");
    if (kernel == NULL || !r->is_ok)
        return;
    *kernel = (pl_kernel){.struct_size = sizeof *kernel,
                          .name = pl_arena_strdup(r->arena, name),
                          .n_params = req->n_args,
                          .n_configs = 1};
    pl_param_decl *params = pl_arena_array(r->arena, req->n_args, sizeof *params);
    if (params != NULL)
        memcpy(params, r->params, req->n_args * sizeof *params);
    kernel->params = params;
    req->kernel = kernel;
}

bool pl_ir_read(struct pl_fn *fn, struct pl_arena *arena, struct pl_diags *diags, const char *file,
                const char *text, struct pl_ir_read_error *err)
{
    struct pl_reader r = {
        .fn = fn, .arena = arena, .err = err, .file = file, .p = text, .line = 1, .is_ok = true};
    struct pl_trace_request *req = PL_NEW(arena, struct pl_trace_request);
    struct pl_fn shape = {0};
    *err = (struct pl_ir_read_error){.text = "out of memory"};
    if (req == NULL || pl_vec_push(arena, &r.vals) == NULL || pl_vec_push(arena, &r.refs) == NULL ||
        pl_vec_push(arena, &r.bars) == NULL)
        return false;
    read_header(&r, req, &shape);
    if (!r.is_ok || pl_arena_is_exhausted(arena) || !pl_fn_init(fn, arena, diags, req) ||
        !pl_builder_init(&r.b, fn))
        return false;
    fn->n_warpgroups = shape.n_warpgroups;
    memcpy(fn->cluster, shape.cluster, sizeof fn->cluster);
    for (; r.is_ok && *r.p != '\0'; pl_read_next_line(&r)) {
        if (pl_read_at_line_end(&r))
            continue;
        read_line(&r);
        if (r.is_ok && !pl_read_at_line_end(&r))
            pl_read_fail(&r, "unexpected '%c'", *r.p);
    }
    if (r.b.open != 0)
        pl_read_fail(&r, "a block is not closed");
    if (pl_arena_is_exhausted(arena) || !r.is_ok)
        return false;
    pl_ir_levels(fn);
    if (!pl_ir_verify(fn, err->text, sizeof err->text))
        return false;
    err->text[0] = '\0';
    return true;
}
