/* Reads the text form of a plan (print.c) back. Any bytes may come in: every error has its line. */
#include "src/plan/plan.h"

#include "base/debug.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const char *at, *end;
    uint32_t line;
    struct pl_arena *arena;
    struct pl_plan *plan;
    struct pl_plan_error *error;
    bool has_failed;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct reader *r, const char *fmt, ...)
{
    if (!r->has_failed) {
        r->has_failed = true;
        r->error->line = r->line;
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(r->error->text, sizeof r->error->text, fmt, ap);
        va_end(ap);
    }
    return false;
}

/* ---- words: what stands between blanks; {, }, [ and ] are words of their own ---- */

struct word {
    const char *s;
    size_t n;
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool is_bracket(char c) { return c == '{' || c == '}' || c == '[' || c == ']'; }

static bool at_line_end(struct reader *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
    return r->at >= r->end || *r->at == '\n';
}

static void next_line(struct reader *r)
{
    while (r->at < r->end && *r->at != '\n')
        r->at++;
    if (r->at < r->end)
        r->at++;
    r->line++;
}

static struct word next_word(struct reader *r)
{
    struct word w = {r->at, 0};
    if (at_line_end(r))
        return w;
    w.s = r->at;
    if (is_bracket(*r->at)) {
        r->at++;
        w.n = 1;
        return w;
    }
    while (r->at < r->end && *r->at != '\n' && !is_blank(*r->at) && !is_bracket(*r->at))
        r->at++;
    w.n = (size_t)(r->at - w.s);
    return w;
}

static bool is_word(struct word w, const char *s)
{
    return strlen(s) == w.n && memcmp(w.s, s, w.n) == 0;
}

static bool to_int(struct word w, int64_t *out)
{
    size_t i = w.n != 0 && w.s[0] == '-';
    uint64_t v = 0;
    if (i == w.n || w.n - i > 19)
        return false;
    for (; i < w.n; i++) {
        if (w.s[i] < '0' || w.s[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(w.s[i] - '0');
    }
    *out = w.s[0] == '-' ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* "name 12": the value, within 0..max. */
static uint32_t field(struct reader *r, const char *name, uint32_t max)
{
    struct word w = next_word(r);
    int64_t v = 0;
    if (!is_word(w, name))
        return fail(r, "expected '%s'", name), 0;
    if (!to_int(next_word(r), &v) || v < 0 || v > max)
        return fail(r, "'%s' wants a number up to %u", name, max), 0;
    return (uint32_t)v;
}

static const char *quoted(struct reader *r)
{
    if (at_line_end(r) || *r->at != '"')
        return fail(r, "expected a quoted text"), "";
    const char *from = ++r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\n')
        r->at += r->at + 1 < r->end && *r->at == '\\' ? 2 : 1;
    if (r->at >= r->end || *r->at != '"')
        return fail(r, "text without its end"), "";
    char *s = pl_arena_strndup(r->arena, from, (size_t)(r->at - from));
    r->at++;
    if (s == NULL)
        return "";
    char *to = s;
    for (const char *p = s; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0') {
            p++;
            *to++ = *p == 'n' ? '\n' : *p;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
    return s;
}

/* ---- operands ---- */

static bool read_reg(struct word w, pl_reg *out)
{
    int64_t v = 0;
    static const char letters[] = "phrqo";
    const char *c = w.n == 0 ? NULL : memchr(letters, w.s[0], PL_RC_COUNT);
    if (c == NULL || !to_int((struct word){w.s + 1, w.n - 1}, &v) || v < 0 || v > (1 << 28))
        return false;
    *out = pl_reg_make((enum pl_rclass)(c - letters), (uint32_t)v);
    return true;
}

static bool read_indexed(struct word w, char letter, enum pl_opnd_kind kind, struct pl_opnd *out)
{
    int64_t v = 0;
    if (w.n < 2 || w.s[0] != letter || !to_int((struct word){w.s + 1, w.n - 1}, &v) || v < 0 ||
        v > (1 << 28))
        return false;
    *out = pl_opnd_index(kind, (uint32_t)v);
    return true;
}

static bool read_simple(struct reader *r, struct word w, struct pl_opnd *out)
{
    pl_reg reg;
    *out = pl_opnd_none();
    if (is_word(w, "_"))
        return true;
    if (w.n > 1 && w.s[0] == '!') {
        if (!read_reg((struct word){w.s + 1, w.n - 1}, &reg))
            return fail(r, "'!' wants a register");
        *out = pl_opnd_not(reg);
        return true;
    }
    if (w.n > 1 && w.s[0] == '#') {
        out->kind = PL_OPND_IMM;
        return to_int((struct word){w.s + 1, w.n - 1}, &out->imm) || fail(r, "bad constant");
    }
    if (w.n > 1 && w.s[0] == '$') {
        for (uint32_t i = 1; i < PL_SR_COUNT; i++)
            if (is_word((struct word){w.s + 1, w.n - 1}, pl_ssreg_names[i])) {
                *out = pl_opnd_index(PL_OPND_SREG, i);
                return true;
            }
        return fail(r, "unknown special register");
    }
    if (read_reg(w, &reg)) {
        *out = pl_opnd_reg(reg);
        return true;
    }
    return read_indexed(w, 'L', PL_OPND_LABEL, out) || read_indexed(w, 'P', PL_OPND_PARAM, out) ||
           read_indexed(w, 'T', PL_OPND_TEXT, out) ||
           fail(r, "bad operand '%.*s'", (int)(w.n < 40 ? w.n : 40), w.s);
}

static bool read_address(struct reader *r, struct pl_opnd *out)
{
    struct word base = next_word(r), off = next_word(r);
    pl_reg reg = {0};
    int64_t v = 0;
    if (!is_word(base, "smem") && !read_reg(base, &reg))
        return fail(r, "bad address");
    if (!to_int(off, &v) || !is_word(next_word(r), "]"))
        return fail(r, "bad address");
    *out = pl_opnd_addr(reg, v);
    return true;
}

static bool read_list(struct reader *r, struct pl_opnd *out)
{
    struct pl_opnd elems[128]; /* of the widest accumulator */
    uint32_t n = 0;
    for (;;) {
        struct word w = next_word(r);
        if (is_word(w, "}"))
            break;
        if (n == PL_COUNT(elems) || w.n == 0)
            return fail(r, "bad list");
        if (!read_simple(r, w, &elems[n++]))
            return false;
    }
    *out = pl_opnd_index(PL_OPND_LIST, r->plan->steps.pool.n);
    out->n = (uint16_t)n;
    for (uint32_t i = 0; i < n; i++) {
        struct pl_opnd *o = pl_vec_push(r->arena, &r->plan->steps.pool);
        if (o != NULL)
            *o = elems[i];
    }
    return true;
}

static bool read_opnd(struct reader *r, struct pl_opnd *out)
{
    struct word w = next_word(r);
    if (is_word(w, "["))
        return read_address(r, out);
    if (is_word(w, "{"))
        return read_list(r, out);
    return read_simple(r, w, out);
}

/* ---- steps ---- */

static struct word until_dot(struct word *rest)
{
    struct word w = *rest;
    const char *dot = memchr(rest->s, '.', rest->n);
    w.n = dot == NULL ? rest->n : (size_t)(dot - rest->s);
    rest->s += w.n + (dot != NULL);
    rest->n -= w.n + (dot != NULL);
    return w;
}

static bool read_name(struct reader *r, struct word rest, struct pl_step *s)
{
    struct word w = until_dot(&rest);
    for (uint32_t i = 1; i < PL_STEP_COUNT; i++)
        if (is_word(w, pl_step_infos[i].name))
            s->op = (uint8_t)i;
    if (s->op == PL_STEP_NONE)
        return fail(r, "unknown step '%.*s'", (int)(w.n < 40 ? w.n : 40), w.s);
    const struct pl_step_info *info = &pl_step_infos[s->op];
    while (rest.n != 0) {
        w = until_dot(&rest);
        int slot = -1;
        for (uint32_t a = 1; a < PL_SA_COUNT && slot < 0; a++)
            for (int i = 0; i < PL_STEP_MAX_ATTRS && slot < 0; i++)
                if (info->cats[i] != PL_SC_NONE && pl_sattrs[a].cat == info->cats[i] &&
                    is_word(w, pl_sattrs[a].text)) {
                    slot = i;
                    s->attrs[i] = (uint8_t)a;
                }
        if (slot < 0)
            return fail(r, "step '%s' has no attribute '%.*s'", info->name,
                        (int)(w.n < 40 ? w.n : 40), w.s);
    }
    return true;
}

static uint8_t type_of(struct word w)
{
    for (uint32_t i = 1; i < PL_ST_COUNT; i++)
        if (is_word(w, pl_stypes[i].name))
            return (uint8_t)i;
    return PL_ST_NONE;
}

static void read_types(struct reader *r, struct pl_step *s)
{
    const char *back = r->at;
    struct word w = next_word(r);
    const char *cut = w.n == 0 ? NULL : memchr(w.s, '<', w.n);
    s->type = type_of((struct word){w.s, cut == NULL ? w.n : (size_t)(cut - w.s)});
    if (s->type == PL_ST_NONE)
        r->at = back;
    else if (cut != NULL)
        s->from = type_of((struct word){cut + 1, (size_t)(w.s + w.n - cut - 1)});
}

static bool read_step(struct reader *r)
{
    struct pl_step s = {0};
    struct pl_opnd opnds[PL_STEP_MAX_OPNDS];
    struct word w = next_word(r);
    if (w.n > 1 && w.s[0] == '@') {
        s.guard_is_negated = w.s[1] == '!';
        size_t skip = s.guard_is_negated ? 2 : 1;
        if (!read_reg((struct word){w.s + skip, w.n - skip}, &s.guard))
            return fail(r, "bad guard");
        w = next_word(r);
    }
    if (!read_name(r, w, &s))
        return false;
    read_types(r, &s);
    while (!at_line_end(r)) {
        if (s.n_opnds == PL_STEP_MAX_OPNDS)
            return fail(r, "too many operands");
        if (!read_opnd(r, &opnds[s.n_opnds++]))
            return false;
    }
    s.opnds = r->plan->steps.pool.n;
    for (uint32_t i = 0; i < s.n_opnds; i++) {
        struct pl_opnd *o = pl_vec_push(r->arena, &r->plan->steps.pool);
        if (o != NULL)
            *o = opnds[i];
    }
    struct pl_step *at = pl_vec_push(r->arena, &r->plan->steps.list);
    if (at != NULL)
        *at = s;
    return true;
}

/* ---- facts ---- */

static void read_launch(struct reader *r)
{
    struct pl_plan_launch *l = &r->plan->launch;
    l->n_threads = field(r, "threads", 1024);
    l->cluster[0] = field(r, "x", 16);
    l->cluster[1] = field(r, "y", 16);
    l->cluster[2] = field(r, "z", 16);
    l->smem_bytes = field(r, "smem", 1u << 20);
    l->params_bytes = field(r, "params", 1u << 16);
    l->max_registers = field(r, "registers", 256);
    l->can_fold_grid = field(r, "fold", 1) != 0;
    l->waits_for_predecessor = field(r, "waits", 1) != 0;
}

static void read_param(struct reader *r)
{
    struct pl_plan_param p = {.kind = PL_PLAN_PARAM_KIND_COUNT};
    struct word w = next_word(r);
    for (int i = 0; i < PL_PLAN_PARAM_KIND_COUNT; i++)
        if (is_word(w, pl_plan_param_names[i]))
            p.kind = (enum pl_plan_param_kind)i;
    if (p.kind == PL_PLAN_PARAM_KIND_COUNT)
        fail(r, "unknown kind of parameter");
    p.arg = (uint16_t)field(r, "arg", 0xffff);
    p.axis = (uint8_t)field(r, "axis", PL_MAX_RANK);
    p.map = (uint16_t)field(r, "map", 0xffff);
    p.offset_bytes = field(r, "offset", 1u << 16);
    p.n_bytes = field(r, "bytes", 128);
    p.align_bytes = field(r, "align", 128);
    struct pl_plan_param *at = pl_vec_push(r->arena, &r->plan->params);
    if (at != NULL)
        *at = p;
}

static void read_map(struct reader *r)
{
    struct pl_plan_map m = {0};
    struct word w = next_word(r);
    for (int t = 1; t < PL_DTYPE_COUNT; t++)
        if (is_word(w, pl_dtype_name((pl_dtype)t)))
            m.dtype = (pl_dtype)t;
    if (m.dtype == PL_DTYPE_NONE)
        fail(r, "unknown element type");
    m.arg = (uint16_t)field(r, "arg", 0xffff);
    uint32_t span = field(r, "swizzle", 132);
    m.swizzle = span == 132   ? PL_PLAN_SWIZZLE_128_ATOM_32
                : span == 128 ? PL_PLAN_SWIZZLE_128
                : span == 64  ? PL_PLAN_SWIZZLE_64
                : span == 32  ? PL_PLAN_SWIZZLE_32
                              : PL_PLAN_SWIZZLE_NONE;
    m.l2_bytes = (uint16_t)field(r, "l2", 256);
    m.fills_nan = field(r, "nan", 1) != 0;
    m.rank = (uint8_t)field(r, "rank", PL_PLAN_MAP_RANK);
    for (int d = 0; d < m.rank; d++) {
        m.axes[d] = (uint8_t)field(r, "axis", PL_MAX_RANK - 1);
        m.box_elems[d] = (uint16_t)field(r, "box", 256);
    }
    struct pl_plan_map *at = pl_vec_push(r->arena, &r->plan->maps);
    if (at != NULL)
        *at = m;
}

static void read_area(struct reader *r)
{
    struct word w = next_word(r);
    struct pl_plan_area a = {.name = pl_arena_strndup(r->arena, w.s, w.n)};
    a.offset_bytes = field(r, "offset", 1u << 20);
    a.n_bytes = field(r, "bytes", 1u << 20);
    a.align_bytes = field(r, "align", 1024);
    struct pl_plan_area *at = pl_vec_push(r->arena, &r->plan->areas);
    if (at != NULL)
        *at = a;
}

static void read_columns(struct reader *r)
{
    struct word w = next_word(r);
    struct pl_plan_columns c = {.name = pl_arena_strndup(r->arena, w.s, w.n)};
    c.first = field(r, "first", 1u << 10);
    c.n = field(r, "n", 1u << 10);
    r->plan->launch.tmem_columns = field(r, "of", 1u << 10);
    struct pl_plan_columns *at = pl_vec_push(r->arena, &r->plan->columns);
    if (at != NULL)
        *at = c;
}

static void read_note(struct reader *r)
{
    struct pl_plan_note n = {.file = quoted(r)};
    int64_t line = 0;
    if (!to_int(next_word(r), &line))
        fail(r, "a note wants a line number");
    n.line = (int)line;
    n.text = quoted(r);
    struct pl_plan_note *at = pl_vec_push(r->arena, &r->plan->notes);
    if (at != NULL)
        *at = n;
}

static void read_text(struct reader *r)
{
    struct pl_step_text t = {.file = quoted(r)};
    int64_t line = 0;
    if (!to_int(next_word(r), &line))
        fail(r, "a text wants a line number");
    t.line = (int32_t)line;
    t.text = quoted(r);
    struct pl_step_text *at = pl_vec_push(r->arena, &r->plan->steps.texts);
    if (at != NULL)
        *at = t;
}

static void read_steps_head(struct reader *r)
{
    struct pl_steps *s = &r->plan->steps;
    s->n_regs[PL_RC_PRED] = field(r, "pred", 1u << 28);
    s->n_regs[PL_RC_B16] = field(r, "b16", 1u << 28);
    s->n_regs[PL_RC_B32] = field(r, "b32", 1u << 28);
    s->n_regs[PL_RC_B64] = field(r, "b64", 1u << 28);
    s->n_regs[PL_RC_B128] = field(r, "b128", 1u << 28);
    s->n_labels = field(r, "labels", 1u << 28);
}

static void read_line(struct reader *r, bool *in_steps)
{
    if (*in_steps) {
        read_step(r);
        return;
    }
    struct word w = next_word(r);
    if (is_word(w, "plan")) {
        struct word name = next_word(r);
        r->plan->kernel = pl_arena_strndup(r->arena, name.s, name.n);
        r->plan->sm = (uint16_t)field(r, "sm", 999);
    } else if (is_word(w, "launch")) {
        read_launch(r);
    } else if (is_word(w, "param")) {
        read_param(r);
    } else if (is_word(w, "map")) {
        read_map(r);
    } else if (is_word(w, "area")) {
        read_area(r);
    } else if (is_word(w, "columns")) {
        read_columns(r);
    } else if (is_word(w, "note")) {
        read_note(r);
    } else if (is_word(w, "text")) {
        read_text(r);
    } else if (is_word(w, "steps")) {
        read_steps_head(r);
        *in_steps = true;
    } else {
        fail(r, "unknown line '%.*s'", (int)(w.n < 40 ? w.n : 40), w.s);
    }
    if (!r->has_failed && !at_line_end(r))
        fail(r, "something follows the end of the line");
}

bool pl_plan_read(const char *text, size_t n_bytes, struct pl_arena *arena, struct pl_plan *out,
                  struct pl_plan_error *error)
{
    struct reader r = {
        .at = text, .end = text + n_bytes, .line = 1, .arena = arena, .plan = out, .error = error};
    bool in_steps = false;
    memset(out, 0, sizeof *out);
    *error = (struct pl_plan_error){0};
    out->kernel = "";
    while (r.at < r.end && !r.has_failed) {
        if (!at_line_end(&r))
            read_line(&r, &in_steps);
        next_line(&r);
    }
    if (!r.has_failed && !in_steps)
        fail(&r, "no steps");
    if (!r.has_failed && pl_arena_is_exhausted(arena))
        fail(&r, "out of memory");
    return !r.has_failed;
}
