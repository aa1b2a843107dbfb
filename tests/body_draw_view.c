/* Tensors and arrays as statements want them, and views of them. */
#include "tests/body_draw.h"

#include "base/debug.h"

#include <string.h>

int32_t draw_tensor(struct draw *d, pl_dtype t, const pl_shape *s, pl_param_role role)
{
    struct body *p = d->p;
    int32_t n_params =
        2 + 1 + 2 * s->rank; /* of a launch: addresses, extents, strides, some tensor maps */
    for (int32_t i = 0; i < p->n_tensors; i++)
        n_params += 1 + 2 * p->tensors[i].s.rank;
    if (p->n_tensors == BODY_MAX_TENSORS || n_params > 56)
        return BODY_NONE;
    struct body_tensor *x = &p->tensors[p->n_tensors];
    *x = (struct body_tensor){.t = t, .s = *s, .role = role, .is_small = draw_chance(d, 60)};
    x->strides.rank = s->rank;
    int64_t stride = 1;
    const int how = draw_below(
        d,
        8); /* 0: the last axis strided; 1, 2: padded rows; 3: the last two axes swapped; else dense */
    if (how == 0)
        stride = 2;
    for (int i = s->rank - 1; i >= 0; i--) {
        x->strides.d[i] = stride;
        stride *= s->d[i];
        if (i == s->rank - 1 && how == 1)
            stride += 1 + draw_below(d, 5);
        if (i == s->rank - 1 && how == 2)
            stride += 16 - stride % 16;
    }
    if (how == 3 && s->rank >= 2) {
        const int64_t rows = s->d[s->rank - 2];
        x->strides.d[s->rank - 2] = 1;
        x->strides.d[s->rank - 1] = rows;
    }
    x->offset_elems = draw_chance(d, 25) ? 1 + draw_below(d, 20) : 0;
    x->n_alloc = x->offset_elems + stride + 16;
    if (draw_chance(d, 30))
        x->baked_dims = (uint32_t)draw_below(d, 1 << s->rank);
    return p->n_tensors++;
}

static int32_t near(struct draw *d, int64_t n)
{
    switch (draw_below(d, 6)) {
    case 0: return (int32_t)n + 1 + draw_below(d, 9);
    case 1: return n > 3 ? (int32_t)n - 1 - draw_below(d, n < 9 ? n - 2 : 8) : (int32_t)n;
    case 2: return 2 * (int32_t)n;
    case 3: return ((int32_t)n + 15) / 16 * 16;
    default: return (int32_t)n;
    }
}

struct body_view_step *draw_step(struct body_view *v, enum body_view_kind kind)
{
    struct body_view_step *s = &v->steps[v->n_steps++];
    *s = (struct body_view_step){.kind = kind};
    for (int i = 0; i < 4; i++)
        s->at[i] = draw_constant(0);
    return s;
}

static pl_shape swapped(pl_shape s)
{
    const int64_t n = s.d[s.rank - 1];
    s.d[s.rank - 1] = s.d[s.rank - 2];
    s.d[s.rank - 2] = n;
    return s;
}

/* Window (or tile) of the last axes of t, then perhaps a transpose and a clip, to the shape s. */
static void view_tail(struct draw *d, struct body_view *v, const pl_shape *have, const pl_shape *s,
                      pl_scope least, bool may_clip, bool may_hang)
{
    const bool turns = s->rank >= 2 && draw_chance(d, 15);
    const pl_shape w = turns ? swapped(*s) : *s;
    if (s->rank > 0) {
        const bool is_tile = may_hang && draw_chance(d, 25);
        struct body_view_step *st = draw_step(v, is_tile ? BODY_TILE : BODY_WINDOW);
        st->s = w;
        for (int i = 0; i < w.rank; i++) {
            const int32_t room = (int32_t)(have->d[i] - w.d[i]);
            if (is_tile)
                st->at[i] = draw_index(d, 0, (int32_t)(have->d[i] / w.d[i]), least);
            else if (may_hang && draw_chance(d, 25))
                st->at[i] = draw_index(d, -3, room + 5 > 0 ? room + 5 : 2, least);
            else
                st->at[i] = draw_index(d, 0, room > 0 ? room : 0, least);
        }
    }
    if (turns)
        draw_step(v, BODY_TRANSPOSE);
    if (may_clip && s->rank > 0 && draw_chance(d, 20)) {
        struct body_view_step *st = draw_step(v, BODY_CLIP);
        st->axis = draw_below(d, s->rank);
        st->at[0] = draw_index(d, 0, (int32_t)s->d[st->axis] + 1, least);
    }
    v->s = *s;
}

/* A view of an input, of type t and shape s; false when there is no room for another tensor. */
bool draw_input_view(struct draw *d, pl_dtype t, const pl_shape *s, pl_scope least,
                     struct body_view *v)
{
    *v = (struct body_view){.base = BODY_NONE};
    struct body *p = d->p;
    for (int i = 0; i < 4 && v->base < 0 && p->n_tensors > 0; i++) {
        const int32_t k = draw_below(d, p->n_tensors);
        const struct body_tensor *x = &p->tensors[k];
        if (x->role == PL_ROLE_IN && x->t == t && x->s.rank >= s->rank)
            v->base = k;
    }
    if (v->base < 0) {
        pl_shape shape = {.rank = s->rank + draw_below(d, 100) / 55};
        const int extra = shape.rank - s->rank;
        for (int i = 0; i < shape.rank; i++)
            shape.d[i] = i < extra ? 1 + draw_below(d, 4) : near(d, s->d[i - extra]);
        v->base = draw_tensor(d, t, &shape, PL_ROLE_IN);
    }
    if (v->base < 0)
        return false;
    const pl_shape have = p->tensors[v->base].s;
    pl_shape tail = {.rank = s->rank};
    const int extra = have.rank - s->rank;
    for (int i = 0; i < s->rank; i++)
        tail.d[i] = have.d[extra + i];
    for (int i = 0; i < extra; i++)
        draw_step(v, BODY_AT)->at[0] = draw_index(d, 0, (int32_t)have.d[i] - 1, least);
    view_tail(d, v, &tail, s, least, true, true);
    return true;
}

/* Rows of whole words, one behind the other. */
void draw_make_dense(struct draw *d, int32_t tensor)
{
    struct body_tensor *x = &d->p->tensors[tensor];
    int64_t stride = 1, *last = &x->s.d[x->s.rank - 1];
    *last = (*last + 15) / 16 * 16;
    for (int i = x->s.rank - 1; i >= 0; i--) {
        x->strides.d[i] = stride;
        stride *= x->s.d[i];
    }
    x->offset_elems = 0;
    x->n_alloc = stride + 16;
}

/* What the copy engine asks for of a tensor is known where it is so. */
bool draw_has_engine(const struct draw *d)
{
    const pl_fact_set wanted = PL_FACT_ALIGN16 | PL_FACT_I32 | PL_FACT_UNIT_STRIDE;
    return d->p->arch >= 90 && (d->p->facts & wanted) == wanted;
}

/* A window of a tensor of its own, dense and aligned, that may hang over its end. */
bool draw_dense_input_view(struct draw *d, pl_dtype t, const pl_shape *s, struct body_view *v)
{
    pl_shape shape = *s;
    for (int i = 0; i < s->rank; i++)
        shape.d[i] += i + 1 < s->rank ? draw_below(d, 5) : 16 * draw_below(d, 3);
    const int32_t k = draw_tensor(d, t, &shape, PL_ROLE_IN);
    if (k < 0)
        return false;
    draw_make_dense(d, k);
    *v = (struct body_view){.base = k, .s = *s};
    struct body_view_step *st = draw_step(v, BODY_WINDOW);
    st->s = *s;
    for (int i = 0; i < s->rank; i++)
        st->at[i] = draw_index(d, 0, 5, PL_SCOPE_CTA);
    return true;
}

/* A new output with a part for each unit, and the view of that. */
int32_t draw_output_view(struct draw *d, pl_dtype t, const pl_shape *s, bool is_exact,
                         struct body_view *v)
{
    pl_shape shape = {.rank = s->rank + 2};
    shape.d[0] = d->p->n_ctas;
    shape.d[1] = d->p->n_warpgroups;
    for (int i = 0; i < s->rank; i++)
        shape.d[2 + i] =
            is_exact ? s->d[i] + draw_below(d, 3) * draw_below(d, 4) : near(d, s->d[i]);
    const int32_t k = draw_tensor(d, t, &shape, PL_ROLE_OUT);
    if (k < 0)
        return k;
    *v = (struct body_view){.base = k};
    draw_step(v, BODY_AT)->at[0] = (struct body_index){0, 1, 0, 0};
    draw_step(v, BODY_AT)->at[0] = (struct body_index){1, 1, 0, 0};
    const pl_shape tail = {.rank = s->rank, .d = {shape.d[2], shape.d[3], shape.d[4]}};
    const bool turns = s->rank >= 2 && draw_chance(d, 15) &&
                       tail.d[s->rank - 1] >= s->d[s->rank - 2] &&
                       tail.d[s->rank - 2] >= s->d[s->rank - 1];
    const pl_shape w = turns ? swapped(*s) : *s;
    if (s->rank > 0) {
        struct body_view_step *st = draw_step(v, BODY_WINDOW);
        st->s = w;
        for (int i = 0; i < w.rank; i++) {
            const int32_t room = (int32_t)(tail.d[i] - w.d[i]);
            /* In a loop the place stays: threads would overwrite each other's elements. */
            st->at[i] = d->n_loops > 0 || room <= 0
                            ? draw_constant(room > 0 ? draw_below(d, room + 1) : 0)
                            : draw_index(d, 0, room, PL_SCOPE_WARPGROUP);
            if (!is_exact && draw_chance(d, 10))
                st->at[i] = draw_constant(-draw_below(d, 3));
        }
    }
    if (turns)
        draw_step(v, BODY_TRANSPOSE);
    if (!is_exact && s->rank > 0 && d->n_loops == 0 && draw_chance(d, 15)) {
        struct body_view_step *st = draw_step(v, BODY_CLIP);
        st->axis = draw_below(d, s->rank);
        st->at[0] = draw_index(d, 0, (int32_t)s->d[st->axis] + 1, PL_SCOPE_WARPGROUP);
    }
    v->s = *s;
    return k;
}

/* ---- shared memory ---- */

pl_transforms draw_transforms(struct draw *d, pl_dtype t, const pl_shape *s)
{
    static const int swizzles[] = {0, 0, PL_SWIZZLE_CHOOSE, 32, 64, 128};
    const int bytes = swizzles[draw_below(d, 6)];
    const int64_t last = s->d[s->rank - 1];
    if (bytes <= 0)
        return pl_transforms_make(0, 0, bytes);
    const int64_t cols = bytes * 8 / pl_dtype_bits(t);
    if (s->rank < 2 || last % cols != 0)
        return PL_SWIZZLE_AUTO;
    const int64_t rows = s->d[s->rank - 2];
    return pl_transforms_make(rows % 8 == 0 && draw_chance(d, 60) ? 8 : 0, (int32_t)cols, bytes);
}

/* An array of which t and shape s is a slot, or all. */
static int32_t draw_array(struct draw *d, pl_dtype t, const pl_shape *s)
{
    struct body *p = d->p;
    for (int i = 0; i < p->n_smem; i++) {
        const struct body_smem *a = &p->smem[i];
        const int extra = a->s.rank - s->rank;
        bool fits = i != d->busy && a->t == t && (extra == 0 || extra == 1);
        for (int k = 0; fits && k < s->rank; k++)
            fits = a->s.d[extra + k] >= s->d[k];
        if (fits)
            return i;
    }
    if (p->n_smem == BODY_MAX_SMEM || s->rank == 0)
        return BODY_NONE;
    struct body_smem *a = &p->smem[p->n_smem];
    *a = (struct body_smem){.t = t, .s = *s};
    if (draw_chance(d, 40)) {
        a->s.rank++;
        memmove(a->s.d + 1, s->d, 3 * sizeof s->d[0]);
        a->s.d[0] = 2 + draw_below(d, 2);
    }
    a->tr = draw_transforms(d, t, &a->s);
    a->has_leading = p->n_warpgroups > 1;
    return p->n_smem++;
}

bool draw_smem_view(struct draw *d, pl_dtype t, const pl_shape *s, bool may_turn,
                    struct body_view *v)
{
    *v = (struct body_view){.is_smem = true, .base = draw_array(d, t, s)};
    if (v->base < 0)
        return false;
    const struct body_smem *a = &d->p->smem[v->base];
    pl_shape have = a->s;
    if (a->has_leading)
        draw_step(v, BODY_AT)->at[0] = (struct body_index){1, 1, 0, 0};
    if (have.rank > s->rank) {
        draw_step(v, BODY_AT)->at[0] = draw_index(d, 0, (int32_t)have.d[0] - 1, PL_SCOPE_WARPGROUP);
        have.rank--;
        memmove(have.d, have.d + 1, 4 * sizeof have.d[0]);
    }
    const bool turns = may_turn && s->rank >= 2 && draw_chance(d, 20) &&
                       have.d[s->rank - 1] >= s->d[s->rank - 2] &&
                       have.d[s->rank - 2] >= s->d[s->rank - 1];
    const pl_shape w = turns ? swapped(*s) : *s;
    const bool is_whole = memcmp(have.d, w.d, (size_t)w.rank * sizeof w.d[0]) == 0;
    if (!is_whole) {
        struct body_view_step *st = draw_step(v, BODY_WINDOW);
        st->s = w;
        for (int i = 0; i < w.rank; i++)
            st->at[i] = draw_index(d, 0, (int32_t)(have.d[i] - w.d[i]), PL_SCOPE_WARPGROUP);
    } else if (may_turn && !turns && s->rank == 2 && a->tr.swizzle_bytes == 0 &&
               draw_chance(d, 15)) {
        struct body_view_step *st = draw_step(v, BODY_RESHAPE); /* there and back */
        st->s = (pl_shape){.rank = 1, .d = {body_n_elems(s)}};
        draw_step(v, BODY_RESHAPE)->s = *s;
    }
    if (turns)
        draw_step(v, BODY_TRANSPOSE);
    v->s = *s;
    return true;
}

bool draw_smem_element(struct draw *d, pl_dtype t, struct body_view *v)
{
    const int32_t n = d->p->n_smem, k = n == 0 ? BODY_NONE : draw_below(d, n);
    if (k < 0 || k == d->busy || d->p->smem[k].t != t)
        return false;
    const struct body_smem *a = &d->p->smem[k];
    *v = (struct body_view){.is_smem = true, .base = k};
    if (a->has_leading)
        draw_step(v, BODY_AT)->at[0] = (struct body_index){1, 1, 0, 0};
    for (int i = 0; i < a->s.rank; i++)
        draw_step(v, BODY_AT)->at[0] = draw_index(d, 0, (int32_t)a->s.d[i] - 1, PL_SCOPE_WARPGROUP);
    return true;
}
