#include "src/ir/read.h"

#include "src/ir/print.h"
#include "src/ir/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct pl_builder b;
    struct pl_fn *fn;
    struct pl_arena *arena;
    struct pl_ir_read_error *err;
    const char *file;
    const char *p; /* next character */
    int line;
    bool is_ok;
    pl_param_decl params[PL_MAX_ARGS];
    PL_VEC(uint32_t) vals, refs, bars; /* ids by printed number; [0] is none */
};

static void fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct reader *r, const char *fmt, ...)
{
    if (!r->is_ok)
        return;
    r->is_ok = false;
    r->err->line = r->line;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->err->text, sizeof r->err->text, fmt, ap);
    va_end(ap);
}

/* ---- tokens ---- */

static void skip_blanks(struct reader *r)
{
    while (*r->p == ' ' || *r->p == '\t' || *r->p == '\r')
        r->p++;
}

static bool at_end_of_line(struct reader *r)
{
    skip_blanks(r);
    return *r->p == '\n' || *r->p == '\0' || *r->p == ';';
}

static void next_line(struct reader *r)
{
    while (*r->p != '\n' && *r->p != '\0')
        r->p++;
    if (*r->p == '\n')
        r->p++;
    r->line++;
}

static bool take_char(struct reader *r, char c)
{
    skip_blanks(r);
    if (*r->p != c)
        return false;
    r->p++;
    return true;
}

static void need_char(struct reader *r, char c)
{
    if (!take_char(r, c))
        fail(r, "'%c' expected", c);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The next word, cut to its buffer; empty when there is none. */
static void take_word(struct reader *r, char out[48])
{
    size_t n = 0;
    skip_blanks(r);
    for (; is_word_char(*r->p); r->p++)
        if (n < 47)
            out[n++] = *r->p;
    out[n] = '\0';
}

static bool take_int(struct reader *r, int64_t *v)
{
    skip_blanks(r);
    bool is_negative = *r->p == '-';
    const char *digits = r->p + is_negative;
    uint64_t u = 0;
    if (*digits < '0' || *digits > '9')
        return false;
    for (; *digits >= '0' && *digits <= '9'; digits++)
        u = u * 10 + (uint64_t)(*digits - '0');
    r->p = digits;
    *v = is_negative ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

static int64_t need_int(struct reader *r, int64_t least, int64_t most)
{
    int64_t v = 0;
    if (!take_int(r, &v) || v < least || v > most) {
        fail(r, "a number from %lld to %lld expected", (long long)least, (long long)most);
        return least;
    }
    return v;
}

static double need_double(struct reader *r)
{
    uint64_t bits = 0;
    double f;
    skip_blanks(r);
    if (r->p[0] != '0' || r->p[1] != 'd') {
        fail(r, "0d and 16 hexadecimal digits expected");
        return 0;
    }
    r->p += 2;
    for (int i = 0; i < 16; i++, r->p++) {
        const char *hex = "0123456789ABCDEF", *d = *r->p == '\0' ? NULL : strchr(hex, *r->p);
        if (d == NULL) {
            fail(r, "0d and 16 hexadecimal digits expected");
            return 0;
        }
        bits = bits << 4 | (uint64_t)(d - hex);
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

static pl_dtype need_dtype(struct reader *r)
{
    char w[48];
    take_word(r, w);
    pl_dtype t = pl_dtype_find(w);
    if (t == PL_DTYPE_NONE)
        fail(r, "dtype expected, not '%s'", w);
    return t;
}

static pl_shape need_shape(struct reader *r, bool may_be_dynamic)
{
    pl_shape s = PL_SHAPE_SCALAR;
    need_char(r, '[');
    if (take_char(r, ']'))
        return s;
    do {
        if (s.rank == PL_MAX_RANK) {
            fail(r, "more than %d axes", PL_MAX_RANK);
            return s;
        }
        if (may_be_dynamic && take_char(r, '?'))
            s.d[s.rank++] = -1;
        else
            s.d[s.rank++] = need_int(r, 0, (int64_t)1 << 40);
    } while (r->is_ok && take_char(r, ','));
    need_char(r, ']');
    return s;
}

/* ---- ids ---- */

static uint32_t look_up(struct reader *r, const uint32_t *ids, uint32_t n, const char *what)
{
    uint32_t i = (uint32_t)need_int(r, 0, INT32_MAX);
    if (i != 0 && (i >= n || ids[i] == 0)) {
        fail(r, "%s %u is used before it is made", what, i);
        return 0;
    }
    return i == 0 ? 0 : ids[i];
}

static uint32_t need_val(struct reader *r)
{
    need_char(r, '%');
    return look_up(r, r->vals.data, r->vals.n, "value");
}

static uint32_t need_ref(struct reader *r)
{
    need_char(r, '$');
    return look_up(r, r->refs.data, r->refs.n, "ref");
}

static uint32_t need_bar(struct reader *r)
{
    need_char(r, '!');
    return look_up(r, r->bars.data, r->bars.n, "barrier");
}

static uint32_t need_pipe(struct reader *r)
{
    need_char(r, '#');
    return (uint32_t)need_int(r, 1, (int64_t)r->fn->pipes.n - 1);
}

/* The result of a line; numbers come in order. */
static void define(struct reader *r, char sigil, int64_t number, uint32_t id)
{
    uint32_t *slot = NULL, n = 0;
    if (sigil == '%')
        slot = pl_vec_push(r->arena, &r->vals), n = r->vals.n;
    else if (sigil == '$')
        slot = pl_vec_push(r->arena, &r->refs), n = r->refs.n;
    else if (sigil == '!')
        slot = pl_vec_push(r->arena, &r->bars), n = r->bars.n;
    if (slot == NULL)
        return;
    *slot = id;
    if (number != (int64_t)n - 1)
        fail(r, "%c%lld is out of order: %c%u is next", sigil, (long long)number, sigil, n - 1);
}

/* ---- attributes ---- */

/* The index of a word in a family of words, or -1. */
#define FIND_WORD(w, function, T)                                                                  \
    int found = -1;                                                                                \
    for (int i = 0; found < 0 && function((T)i) != NULL; i++)                                      \
        found = strcmp(w, function((T)i)) == 0 ? i : -1;

static int find_layout(const char *w)
{
    FIND_WORD(w, pl_ir_layout_word, pl_layout_kind)
    return found;
}
static int find_scope(const char *w)
{
    FIND_WORD(w, pl_ir_scope_word, pl_scope)
    return found;
}
static int find_view(const char *w)
{
    FIND_WORD(w, pl_ir_view_word, enum pl_view_kind)
    return found;
}
static int find_atomic(const char *w)
{
    FIND_WORD(w, pl_ir_atomic_word, pl_atomic)
    return found;
}
static int find_fence(const char *w)
{
    FIND_WORD(w, pl_ir_fence_word, pl_fence_kind)
    return found;
}
static int find_by(const char *w)
{
    FIND_WORD(w, pl_ir_by_word, pl_by)
    return found;
}

static int find_op1(const char *w)
{
    for (int i = 1; i < PL_OP1_COUNT; i++)
        if (strcmp(w, pl_op1_name((pl_op1)i)) == 0)
            return i;
    return -1;
}

static int find_op2(const char *w)
{
    for (int i = 1; i < PL_OP2_COUNT; i++)
        if (strcmp(w, pl_op2_name((pl_op2)i)) == 0)
            return i;
    return -1;
}

static int need_word(struct reader *r, int (*find)(const char *w))
{
    char w[48];
    take_word(r, w);
    int i = find(w);
    if (i < 0)
        fail(r, "'%s' is not one of the words that belong here", w);
    return i < 0 ? 0 : i;
}

static pl_layout need_layout(struct reader *r)
{
    pl_layout l = {.kind = (pl_layout_kind)need_word(r, find_layout)};
    need_char(r, '/');
    l.vec = (int32_t)need_int(r, INT32_MIN, INT32_MAX);
    need_char(r, '/');
    l.reduced_axes = (uint32_t)need_int(r, 0, UINT32_MAX);
    return l;
}

static char *need_text(struct reader *r)
{
    need_char(r, '"');
    char *out = pl_arena_alloc(r->arena, strcspn(r->p, "\n") + 1);
    size_t n = 0;
    for (; out != NULL && *r->p != '"' && *r->p != '\n' && *r->p != '\0'; r->p++) {
        if (*r->p == '\\' && r->p[1] != '\0' && r->p[1] != '\n')
            r->p++, out[n++] = *r->p == 'n' ? '\n' : *r->p;
        else
            out[n++] = *r->p;
    }
    need_char(r, '"');
    return out;
}

static int32_t find_sub(struct reader *r, enum pl_opcode code)
{
    return code == PL_OP_ATOMIC  ? need_word(r, find_atomic)
           : code == PL_OP_FENCE ? need_word(r, find_fence)
                                 : need_word(r, find_op2);
}

static void read_op_attribute(struct reader *r, struct pl_op *op, const char *key)
{
    if (strcmp(key, "flag") == 0)
        op->is_flag = true;
    else if (strcmp(key, "index") == 0)
        op->is_index = true;
    else
        need_char(r, '=');
    if (strcmp(key, "op") == 0)
        op->sub = find_sub(r, op->code);
    else if (strcmp(key, "axis") == 0)
        op->axis = (int32_t)need_int(r, INT32_MIN, INT32_MAX);
    else if (strcmp(key, "n") == 0)
        op->n = (int32_t)need_int(r, INT32_MIN, INT32_MAX);
    else if (strcmp(key, "scope") == 0)
        op->scope = (pl_scope)need_word(r, find_scope);
    else if (strcmp(key, "oob") == 0)
        op->oob = (pl_oob)need_int(r, 0, PL_OOB_PROMISE);
    else if (strcmp(key, "how") == 0)
        op->how = (pl_how)need_int(r, 0, PL_HOW_ELEMENTS);
    else if (strcmp(key, "mask") == 0)
        op->mask = (uint32_t)need_int(r, 0, UINT32_MAX);
    else if (strcmp(key, "i") == 0)
        op->i = need_int(r, INT64_MIN, INT64_MAX);
    else if (strcmp(key, "f") == 0)
        op->f = need_double(r);
    else if (strcmp(key, "layout") == 0)
        op->layout = need_layout(r);
    else if (strcmp(key, "text") == 0)
        op->text = need_text(r);
    else if (strcmp(key, "flag") != 0 && strcmp(key, "index") != 0)
        fail(r, "unknown attribute '%s'", key);
}

/* ---- lines ---- */

static pl_loc here(struct reader *r) { return pl_loc_make(r->file, r->line); }

static void read_array(struct reader *r, int64_t number)
{
    char w[48];
    struct pl_array a = {.param = -1, .loc = here(r)};
    uint32_t init = 0;
    take_word(r, w);
    for (int i = 1; i < PL_SPACE_COUNT; i++)
        if (strcmp(w, pl_space_infos[i].name) == 0 && pl_space_infos[i].is_local)
            a.space = (enum pl_space)i;
    if (a.space == PL_SPACE_NONE)
        fail(r, "'%s' is not a space to allocate in", w);
    a.dtype = need_dtype(r);
    a.shape = need_shape(r, false);
    while (r->is_ok && !at_end_of_line(r)) {
        take_word(r, w);
        if (strcmp(w, "transposed") == 0) {
            a.tr.is_transposed = 1;
            continue;
        }
        if (strcmp(w, "pair") == 0) {
            a.is_pair = true;
            continue;
        }
        need_char(r, '=');
        if (strcmp(w, "tile") == 0) {
            a.tr.tile_rows = (int32_t)need_int(r, INT32_MIN, INT32_MAX);
            need_char(r, '/');
            a.tr.tile_cols = (int32_t)need_int(r, INT32_MIN, INT32_MAX);
        } else if (strcmp(w, "swizzle") == 0) {
            a.tr.swizzle_bytes = (int32_t)need_int(r, INT32_MIN, INT32_MAX);
        } else if (strcmp(w, "layout") == 0) {
            a.layout = need_layout(r);
        } else if (strcmp(w, "over") == 0) {
            uint32_t over = need_ref(r);
            a.alias_of = over == 0 ? 0 : r->fn->refs.data[over].array;
        } else if (strcmp(w, "init") == 0) {
            init = need_val(r);
        } else {
            fail(r, "unknown attribute '%s'", w);
        }
    }
    define(r, '$', number, r->is_ok ? pl_trace_array(&r->b, &a, init, here(r)) : 0);
}

static void read_param(struct reader *r, int64_t number)
{
    int64_t i = need_int(r, 0, PL_MAX_ARGS - 1);
    define(r, '$', number, r->fn->param_refs[i]);
    if (r->fn->param_refs[i] == 0)
        fail(r, "argument %lld is not a tensor", (long long)i);
}

static void read_view(struct reader *r, enum pl_view_kind view, int64_t number)
{
    struct pl_ref_info want = {.view = view, .parent = need_ref(r)};
    bool has_shape = view == PL_VIEW_WINDOW || view == PL_VIEW_TILE || view == PL_VIEW_RESHAPE;
    while (r->is_ok && (skip_blanks(r), *r->p == '%') && want.n_args < PL_MAX_RANK)
        want.args[want.n_args++] = need_val(r);
    if (has_shape)
        want.shape = need_shape(r, false);
    if (!at_end_of_line(r)) {
        char w[48];
        take_word(r, w);
        need_char(r, '=');
        want.axis = (int32_t)need_int(r, 0, PL_MAX_RANK - 1);
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
        fail(r, "operands of a view");
        return;
    }
    uint32_t id = pl_trace_view(&r->b, &want, here(r));
    if (id == 0)
        fail(r, "a view that cannot be: see the diagnostics");
    define(r, '$', number, id);
}

static void read_group(struct reader *r, int64_t number)
{
    char w[48];
    struct pl_bar_group g = {.n_barriers = 1, .n_arrivals = 1};
    while (r->is_ok && !at_end_of_line(r)) {
        take_word(r, w);
        if (strcmp(w, "ready") == 0)
            g.starts_ready = true;
        else if (strcmp(w, "tensor_core") == 0)
            g.orders_tensor_core = true;
        else if (strcmp(w, "cluster") == 0)
            g.is_cluster = true;
        else if (strcmp(w, "leader") == 0)
            g.at = PL_LEADER;
        else {
            need_char(r, '=');
            int32_t v = (int32_t)need_int(r, 1, 1 << 13);
            if (strcmp(w, "n") == 0)
                g.n_barriers = v <= 32 ? v : (fail(r, "at most 32 barriers"), 1);
            else if (strcmp(w, "arrivals") == 0)
                g.n_arrivals = v;
            else
                fail(r, "unknown attribute '%s'", w);
        }
    }
    define(r, '!', number, pl_trace_group(&r->b, &g, here(r)));
}

static void read_bar_at(struct reader *r, int64_t number)
{
    uint32_t group = need_bar(r), index = need_val(r);
    pl_bar bar = r->is_ok ? pl_bar_at_at(&r->b, (pl_bar){group}, pl_trace_val(index), here(r))
                          : pl_bar_none();
    if (bar.id == 0)
        fail(r, "an index that cannot be");
    define(r, '!', number, bar.id);
}

static void read_pipe(struct reader *r)
{
    char w[48];
    struct pl_pipe_info p = {.n_produce_copies = -1, .loc = here(r)};
    p.full_bar = need_bar(r);
    p.empty_bar = need_bar(r);
    p.producer_slot = need_ref(r);
    p.consumer_slot = need_ref(r);
    p.held_slot = need_ref(r);
    while (r->is_ok && !at_end_of_line(r)) {
        take_word(r, w);
        need_char(r, '=');
        if (strcmp(w, "producer") == 0)
            p.desc.producer = (pl_by)need_word(r, find_by);
        else if (strcmp(w, "consumer") == 0)
            p.desc.consumer = (pl_by)need_word(r, find_by);
        else if (strcmp(w, "stages") == 0)
            p.desc.stages = (int32_t)need_int(r, 1, 32);
        else if (strcmp(w, "producers") == 0)
            p.desc.n_producers = (int32_t)need_int(r, 0, 64);
        else if (strcmp(w, "consumers") == 0)
            p.desc.n_consumers = (int32_t)need_int(r, 0, 64);
        else if (strcmp(w, "lag") == 0)
            p.desc.lag = (int32_t)need_int(r, 0, 1);
        else
            fail(r, "unknown attribute '%s'", w);
    }
    if (!r->is_ok || p.full_bar == 0 || p.empty_bar == 0) {
        fail(r, "a pipe without barriers");
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
    int op1 = find_op1(w), op2 = find_op2(w);
    *sub = op1 > 0 ? op1 : op2 > 0 ? op2 : 0;
    return op1 > 0 ? PL_OP_UNARY : op2 > 0 ? PL_OP_BINARY : PL_OP_NONE;
}

static void note_uses(struct reader *r, const struct pl_op *op)
{
    if (op->bar != 0) {
        struct pl_bar_group *g = &r->fn->groups.data[r->fn->bars.data[op->bar].group];
        g->n_copy_arrivals += op->code == PL_OP_COPY_IN || op->code == PL_OP_ASYNC_STORE_SMEM ||
                              op->code == PL_OP_GATHER_ROWS;
        g->n_unit_arrivals += op->code == PL_OP_BARRIER_ARRIVE;
        g->n_mma_arrivals += op->code == PL_OP_TCGEN05_COMMIT;
    }
}

static void open_region(struct reader *r, uint32_t id)
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
        fail(r, "only regions have a block");
        return;
    }
    uint32_t block = pl_trace_open(&r->b, kind == PL_BLOCK_IF ? PL_OPEN_IF : PL_OPEN_PLAIN, kind,
                                   id, 0, here(r));
    if (block == 0)
        return;
    r->b.opens.data[r->b.open].has_break = true; /* the builder's question, not this text's */
    if (kind == PL_BLOCK_ROLE) {
        r->fn->blocks.data[block].role_warpgroup = op.n;
        r->fn->blocks.data[block].role_warp = op.axis;
    }
    if (op.pipe != 0 && kind == PL_BLOCK_PRODUCE)
        r->fn->pipes.data[op.pipe].producer_block = block;
    if (op.pipe != 0 && kind == PL_BLOCK_CONSUME)
        r->fn->pipes.data[op.pipe].consumer_block = block;
}

static void read_operands(struct reader *r, struct pl_op *op)
{
    int n_refs = 0;
    for (skip_blanks(r); r->is_ok; skip_blanks(r)) {
        if (*r->p == '%' && op->n_args < PL_OP_MAX_ARGS)
            op->args[op->n_args++] = need_val(r);
        else if (*r->p == '$' && n_refs < PL_OP_MAX_REFS)
            op->refs[n_refs++] = need_ref(r);
        else if (*r->p == '!')
            op->bar = need_bar(r);
        else if (*r->p == '#')
            op->pipe = need_pipe(r);
        else
            break;
    }
}

/* Operand kinds that later passes rely on without asking again. */
static void check_op(struct reader *r, const struct pl_op *op)
{
    const struct pl_op_info *info = &pl_op_infos[op->code];
    bool needs_bar = op->code == PL_OP_COPY_IN || op->code == PL_OP_BARRIER_WAIT ||
                     op->code == PL_OP_BARRIER_ARRIVE || op->code == PL_OP_BARRIER_TEST ||
                     op->code == PL_OP_TCGEN05_COMMIT || op->code == PL_OP_ASYNC_STORE_SMEM ||
                     op->code == PL_OP_GATHER_ROWS;
    bool needs_pipe = op->code == PL_OP_PRODUCE || op->code == PL_OP_CONSUME;
    if ((int32_t)op->n_args < info->min_args || (int32_t)op->n_args > info->max_args)
        fail(r, "%s takes %d to %d values", info->name, info->min_args, info->max_args);
    for (int32_t i = 0; i < info->min_args && r->is_ok; i++)
        if (op->args[i] == 0)
            fail(r, "%s needs its operand %d", info->name, i);
    for (int i = 0; i < 3 && info->spaces[i] != 0 && op->code != PL_OP_ARRAY; i++)
        if (op->refs[i] == 0)
            fail(r, "%s needs its ref %d", info->name, i);
    if ((needs_bar && op->bar == 0) || (needs_pipe && op->pipe == 0))
        fail(r, "%s needs a barrier or a pipe", info->name);
    if ((op->code == PL_OP_PROGRAM_ID || op->code == PL_OP_NUM_PROGRAMS) &&
        (op->axis < 0 || op->axis > 2))
        fail(r, "axis of %s", info->name);
    if ((op->code == PL_OP_SCALAR || op->code == PL_OP_DIM) &&
        (op->n < 0 || (size_t)op->n >= r->fn->request.n_args))
        fail(r, "argument of %s", info->name);
}

static void read_op(struct reader *r, const char *name, char sigil, int64_t number)
{
    struct pl_op op = {.loc = here(r)};
    op.code = find_op(name, &op.sub);
    if (op.code == PL_OP_NONE) {
        fail(r, "unknown operation '%s'", name);
        return;
    }
    if (sigil == '%') {
        op.dtype = need_dtype(r);
        if (*r->p == '[')
            op.shape = need_shape(r, false);
    }
    read_operands(r, &op);
    bool opens = false;
    while (r->is_ok && !at_end_of_line(r) && !opens) {
        char key[48];
        opens = take_char(r, '{');
        if (opens)
            break;
        take_word(r, key);
        read_op_attribute(r, &op, key);
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
        define(r, sigil, number, id);
    if (opens)
        open_region(r, id);
    else if (pl_op_infos[op.code].result == PL_RESULT_REGION)
        fail(r, "%s needs a block", name);
}

static void read_close(struct reader *r)
{
    if (r->b.open == 0) {
        fail(r, "'}' without a block");
        return;
    }
    uint32_t owner = r->fn->blocks.data[r->b.block].owner;
    bool is_if = r->fn->blocks.data[r->b.block].kind == PL_BLOCK_IF;
    pl_block k = {.b = &r->b, .id = r->b.open};
    pl_block_end(&k);
    if (at_end_of_line(r))
        return;
    char w[48];
    take_word(r, w);
    need_char(r, '{');
    if (strcmp(w, "else") != 0 || !is_if)
        fail(r, "'} else {' belongs to an if");
    if (r->is_ok)
        (void)pl_trace_open(&r->b, PL_OPEN_PLAIN, PL_BLOCK_ELSE, owner, 1, here(r));
}

static void read_line(struct reader *r)
{
    char sigil = '\0', w[48];
    int64_t number = 0;
    skip_blanks(r);
    if (take_char(r, '}')) {
        read_close(r);
        return;
    }
    if (*r->p == '%' || *r->p == '$' || *r->p == '!' || *r->p == '#') {
        sigil = *r->p++;
        number = need_int(r, 1, INT32_MAX);
        need_char(r, '=');
    }
    take_word(r, w);
    int view = find_view(w);
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
        fail(r, "'%s' does not make that", w);
}

/* ---- the request ---- */

static void read_arg(struct reader *r, struct pl_trace_request *req)
{
    char name[48], role[48];
    if (req->n_args == PL_MAX_ARGS) {
        fail(r, "more than %d arguments", PL_MAX_ARGS);
        return;
    }
    struct pl_arg_facts *a = &req->args[req->n_args];
    pl_param_decl *p = &r->params[req->n_args++];
    take_word(r, name);
    take_word(r, role);
    p->name = pl_arena_strdup(r->arena, name);
    p->role = strcmp(role, "out") == 0      ? PL_ROLE_OUT
              : strcmp(role, "inout") == 0  ? PL_ROLE_INOUT
              : strcmp(role, "scalar") == 0 ? PL_ROLE_SCALAR
                                            : PL_ROLE_IN;
    if (strcmp(role, "absent") == 0)
        return;
    a->is_present = true;
    a->is_scalar = p->role == PL_ROLE_SCALAR;
    a->dtype = need_dtype(r);
    if (a->is_scalar)
        return;
    pl_shape s = need_shape(r, true);
    a->rank = s.rank;
    memcpy(a->dims, s.d, sizeof s.d);
    if (!at_end_of_line(r)) {
        take_word(r, name);
        need_char(r, '=');
        a->facts = (pl_fact_set)need_int(r, 0, 15);
    }
}

static void read_header(struct reader *r, struct pl_trace_request *req, struct pl_fn *shape)
{
    char w[48], name[48];
    pl_kernel *kernel = PL_NEW(r->arena, pl_kernel);
    shape->n_warpgroups = 1;
    shape->cluster[0] = shape->cluster[1] = shape->cluster[2] = 1;
    for (; r->is_ok && *r->p != '\0'; next_line(r)) {
        const char *start = r->p;
        if (at_end_of_line(r))
            continue;
        take_word(r, w);
        if (strcmp(w, "kernel") == 0) {
            take_word(r, name);
            take_word(r, w);
            req->target =
                strncmp(w, "sm_", 3) == 0 ? pl_target_find((int32_t)strtol(w + 3, NULL, 10)) : NULL;
        } else if (strcmp(w, "arg") == 0) {
            read_arg(r, req);
        } else if (strcmp(w, "warpgroups") == 0) {
            shape->n_warpgroups = (int32_t)need_int(r, 1, 8);
        } else if (strcmp(w, "cluster") == 0) {
            for (int i = 0; i < 3; i++)
                shape->cluster[i] = (int32_t)need_int(r, 1, 16);
        } else {
            r->p = start;
            break;
        }
    }
    if (req->target == NULL)
        fail(r, "the text begins with: kernel NAME sm_NN");
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
    struct reader r = {
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
    for (; r.is_ok && *r.p != '\0'; next_line(&r)) {
        if (at_end_of_line(&r))
            continue;
        read_line(&r);
        if (r.is_ok && !at_end_of_line(&r))
            fail(&r, "unexpected '%c'", *r.p);
    }
    if (r.b.open != 0)
        fail(&r, "a block is not closed");
    if (pl_arena_is_exhausted(arena) || !r.is_ok)
        return false;
    pl_ir_levels(fn);
    if (!pl_ir_verify(fn, err->text, sizeof err->text))
        return false;
    err->text[0] = '\0';
    return true;
}
