/*
 * Mnemonics: from text to rows. A text is matched against each row of its opcode once a module; the result, one shape for
 * each row that takes the text (rows may differ in their operands only), is kept in a table over distinct texts. A shape has
 * the operand pattern of its row resolved: vector lengths, types, and which conditional operands are there.
 */
#include "jit/ptx/parser.h"

#include "base/debug.h"

#include <string.h>

enum {
    N_OPCODE_SLOTS = 512,
    N_TOKEN_SLOTS = 1024,
    MAX_TOKENS = 24,
    MAX_WORDS = 12,
    MAX_MNEMONIC = 400
};

/* An opcode and its rows, which lie together. */
struct pl_ptx_opcode {
    const char *text; /* not terminated */
    uint16_t n_bytes, first, n_rows;
    uint16_t first_head, n_heads; /* in heads[] */
};

static const char *const heads[] = {
#define NAME(text) text,
#include "jit/ptx/name.def"
#undef NAME
};

struct pl_ptx_token {
    const char *text;
    uint16_t n_bytes;
    uint16_t next; /* another meaning of the same text, + 1 */
    uint8_t mod, type;
};

struct span {
    const char *s;
    size_t n_bytes;
};

static uint32_t hash_bytes(const char *s, size_t n_bytes)
{
    uint32_t h = 5381;
    for (size_t i = 0; i < n_bytes; i++)
        h = h * 33 ^ (unsigned char)s[i];
    return h ^ h >> 13;
}

static bool is_same(struct span a, struct span b)
{
    return a.n_bytes == b.n_bytes && memcmp(a.s, b.s, a.n_bytes) == 0;
}

static bool is_text(struct span a, const char *text)
{
    return strncmp(a.s, text, a.n_bytes) == 0 && text[a.n_bytes] == 0;
}

static struct span opcode_of(enum pl_ptx_form form)
{
    const char *s = pl_ptx_infos[form].mnemonic;
    return (struct span){s, strcspn(s, ".")};
}

/* ---- the two indices: opcodes to their first row, token texts to their meanings ---- */

static void add_token(struct pl_ptx_parser *p, uint32_t i, const char *text, uint8_t mod,
                      uint8_t type)
{
    struct span s = {text, strlen(text)};
    p->tokens[i] = (struct pl_ptx_token){text, (uint16_t)s.n_bytes, 0, mod, type};
    uint32_t at = hash_bytes(text, s.n_bytes) & (N_TOKEN_SLOTS - 1);
    for (; p->token_slots[at] != 0; at = (at + 1) & (N_TOKEN_SLOTS - 1)) {
        struct pl_ptx_token *t = &p->tokens[p->token_slots[at] - 1];
        if (is_same((struct span){t->text, t->n_bytes}, s)) {
            while (t->next != 0)
                t = &p->tokens[t->next - 1];
            t->next = (uint16_t)(i + 1);
            return;
        }
    }
    p->token_slots[at] = i + 1;
}

static struct pl_ptx_opcode *find_opcode(const struct pl_ptx_parser *p, struct span op)
{
    uint32_t at = hash_bytes(op.s, op.n_bytes) & (N_OPCODE_SLOTS - 1);
    for (; p->opcode_slots[at].text != NULL; at = (at + 1) & (N_OPCODE_SLOTS - 1)) {
        struct pl_ptx_opcode *o = &p->opcode_slots[at];
        if (is_same((struct span){o->text, o->n_bytes}, op))
            return o;
    }
    return NULL;
}

static void add_heads(struct pl_ptx_parser *p)
{
    for (uint16_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct pl_ptx_opcode *op = find_opcode(p, (struct span){heads[i], strcspn(heads[i], ".")});
        PL_ASSERT(op != NULL);
        if (op->n_heads == 0)
            op->first_head = i;
        PL_ASSERT(op->first_head + op->n_heads == i); /* they lie together */
        op->n_heads++;
    }
}

bool pl_ptx_match_init(struct pl_ptx_parser *p)
{
    p->opcode_slots = pl_arena_array(p->arena, N_OPCODE_SLOTS, sizeof *p->opcode_slots);
    p->token_slots = pl_arena_array(p->arena, N_TOKEN_SLOTS, sizeof *p->token_slots);
    p->tokens = pl_arena_array(p->arena, PL_PTX_MOD_COUNT + PL_PTX_TYPE_COUNT, sizeof *p->tokens);
    if (p->opcode_slots == NULL || p->token_slots == NULL || p->tokens == NULL)
        return false;
    struct pl_ptx_opcode *slot = NULL;
    for (uint32_t form = 1; form < PL_PTX_COUNT; form++) {
        const char *mnemonic = pl_ptx_infos[form].mnemonic;
        if (slot != NULL && strncmp(mnemonic, slot->text, slot->n_bytes) == 0 &&
            (mnemonic[slot->n_bytes] == '.' || mnemonic[slot->n_bytes] == 0)) {
            slot->n_rows++;
            continue;
        }
        struct span op = opcode_of((enum pl_ptx_form)form);
        uint32_t at = hash_bytes(op.s, op.n_bytes) & (N_OPCODE_SLOTS - 1);
        while (p->opcode_slots[at].text != NULL)
            at = (at + 1) & (N_OPCODE_SLOTS - 1);
        slot = &p->opcode_slots[at];
        *slot = (struct pl_ptx_opcode){op.s, (uint16_t)op.n_bytes, (uint16_t)form, 1, 0, 0};
    }
    add_heads(p);
    for (uint32_t mod = 1; mod < PL_PTX_MOD_COUNT; mod++)
        add_token(p, mod, pl_ptx_mods[mod].text, (uint8_t)mod, 0);
    for (uint32_t type = 1; type < PL_PTX_TYPE_COUNT; type++)
        add_token(p, PL_PTX_MOD_COUNT + type, pl_ptx_types[type].text, 0, (uint8_t)type);
    return true;
}

static const struct pl_ptx_token *find_token(const struct pl_ptx_parser *p, struct span s)
{
    uint32_t at = hash_bytes(s.s, s.n_bytes) & (N_TOKEN_SLOTS - 1);
    for (; p->token_slots[at] != 0; at = (at + 1) & (N_TOKEN_SLOTS - 1)) {
        const struct pl_ptx_token *t = &p->tokens[p->token_slots[at] - 1];
        if (is_same((struct span){t->text, t->n_bytes}, s))
            return t;
    }
    return NULL;
}

/* ---- one text against one row ---- */

/* A word of the row behind its head. */
struct word {
    struct span text;
    uint8_t order; /* words of one order stand as the row has them; 0: anywhere */
    bool is_taken;
};

struct match {
    const struct pl_ptx_parser *p;
    struct span tokens[MAX_TOKENS]; /* of the text, after the opcode */
    uint32_t n_tokens;
    struct pl_ptx_ins ins;
    struct word words[MAX_WORDS];
    uint32_t n_words;
    uint32_t n_head_views; /* views of the row whose place is in its head */
    bool is_refused_whole; /* the row takes any modifiers */
    uint32_t n_seen;       /* tokens taken before the row failed */
    const char *missing;
};

/* The next item of a mnemonic; empty at the end. */
static struct span next_item(const char **at)
{
    if (**at != '.')
        return (struct span){*at, 0};
    const char *s = *at + 1;
    size_t n = strcspn(s, ".");
    *at = s + n;
    return (struct span){s, n};
}

static bool is_place(struct span item) /* of a modifier or a type */
{
    return item.n_bytes == 1 && (*item.s == '%' || *item.s == '#');
}

/* Does a token equal a fixed one? In a shape like m64nNk16 the N stands for 8 to 256 in steps of 8. */
static bool takes_fixed(struct match *m, struct span fixed, struct span token)
{
    const char *n = memchr(fixed.s, 'N', fixed.n_bytes);
    if (fixed.n_bytes < 4 || fixed.s[0] != 'm' || n == NULL || n == fixed.s)
        return is_same(fixed, token);
    size_t n_before = (size_t)(n - fixed.s), n_after = fixed.n_bytes - n_before - 1;
    if (token.n_bytes <= n_before + n_after || memcmp(token.s, fixed.s, n_before) != 0 ||
        memcmp(token.s + token.n_bytes - n_after, n + 1, n_after) != 0)
        return false;
    unsigned v = 0;
    for (size_t i = n_before; i < token.n_bytes - n_after; i++) {
        if (token.s[i] < '0' || token.s[i] > '9' || v > 99)
            return false;
        v = v * 10 + (unsigned)(token.s[i] - '0');
    }
    m->ins.shape_n = (uint16_t)v;
    return v >= 8 && v <= 256 && v % 8 == 0 && token.s[n_before] != '0';
}

static bool takes_view(struct match *m, uint16_t view, const struct pl_ptx_token *meaning)
{
    for (;;) {
        if (meaning->mod != 0 && pl_ptx_view_has(view, (enum pl_ptx_mod)meaning->mod) &&
            m->ins.mods[pl_ptx_mods[meaning->mod].cat] == 0) {
            m->ins.mods[pl_ptx_mods[meaning->mod].cat] = meaning->mod;
            return true;
        }
        if (meaning->next == 0)
            return false;
        meaning = &m->p->tokens[meaning->next - 1];
    }
}

static bool takes_modifier(struct match *m, const struct pl_ptx_row *row,
                           const struct pl_ptx_token *t)
{
    for (unsigned v = m->n_head_views; v < PL_PTX_MAX_VIEWS && row->views[v] != 0; v++)
        if (takes_view(m, row->views[v], t))
            return true;
    return false;
}

static bool takes_type(struct match *m, const struct pl_ptx_row *row, const struct pl_ptx_token *t)
{
    while (t->type == 0 && t->next != 0)
        t = &m->p->tokens[t->next - 1];
    unsigned slot = m->ins.n_types;
    if (t->type == 0 || slot >= PL_PTX_MAX_TYPES ||
        (pl_ptx_tsets[row->types[slot]] >> t->type & 1) == 0)
        return false;
    m->ins.types[m->ins.n_types++] = t->type;
    return true;
}

/* The longest head that the mnemonic of a row begins with, behind the opcode. */
static struct span head_of(const struct pl_ptx_opcode *op, const char *mnemonic)
{
    size_t longest = op->n_bytes;
    for (uint16_t i = 0; i < op->n_heads; i++) {
        const char *head = heads[op->first_head + i];
        size_t n = strlen(head);
        if (n > longest && strncmp(head, mnemonic, n) == 0 &&
            (mnemonic[n] == '.' || mnemonic[n] == 0))
            longest = n;
    }
    return (struct span){mnemonic + op->n_bytes, longest - op->n_bytes};
}

/* The tokens of a row's head; a modifier in it may be absent where the row says so. */
static bool takes_head(struct match *m, const struct pl_ptx_row *row, struct span head)
{
    m->n_head_views = 0;
    for (const char *at = head.s; at < head.s + head.n_bytes;) {
        struct span item = next_item(&at);
        bool is_over = m->n_seen == m->n_tokens;
        if (is_place(item)) {
            const struct pl_ptx_token *t = is_over ? NULL : find_token(m->p, m->tokens[m->n_seen]);
            uint16_t view = row->views[m->n_head_views++];
            if (t != NULL && takes_view(m, view, t))
                m->n_seen++;
            else if (view & PL_PTX_VIEW_NEED)
                return false;
        } else if (is_over) {
            m->missing = item.s;
            return false;
        } else if (!is_same(item, m->tokens[m->n_seen++])) {
            m->n_seen--;
            return false;
        }
    }
    return true;
}

/* Types stand in order, and so do the state spaces and the layouts of operands. */
static uint8_t order_of(const struct match *m, struct span word)
{
    const struct pl_ptx_token *t = find_token(m->p, word);
    if (t == NULL)
        return 0;
    if (t->type != 0)
        return 1;
    switch (pl_ptx_mods[t->mod].cat) {
    case PL_PTX_CAT_SPACE: return 2;
    case PL_PTX_CAT_LAYOUT_A: return 3;
    }
    return 0;
}

static void list_words(struct match *m, const char *mnemonic)
{
    for (m->n_words = 0; *mnemonic != 0;) {
        struct span item = next_item(&mnemonic);
        if (is_place(item))
            continue;
        PL_ASSERT(m->n_words < MAX_WORDS);
        m->words[m->n_words++] = (struct word){item, order_of(m, item), false};
    }
}

static bool takes_word(struct match *m, struct span token)
{
    uint32_t passed = 0; /* orders of which an earlier word is still to come */
    for (uint32_t i = 0; i < m->n_words; i++) {
        struct word *w = &m->words[i];
        if (w->is_taken)
            continue;
        if ((passed >> w->order & 1) == 0 && takes_fixed(m, w->text, token)) {
            w->is_taken = true;
            return true;
        }
        passed |= w->order != 0 ? 1u << w->order : 0;
    }
    return false;
}

/* What the row still wants when the text is over; NULL: nothing. */
static const char *find_missing(struct match *m, const struct pl_ptx_row *row)
{
    for (uint32_t i = 0; i < m->n_words; i++)
        if (!m->words[i].is_taken)
            return m->words[i].text.s;
    for (int v = 0; v < PL_PTX_MAX_VIEWS && row->views[v] != 0; v++) {
        const struct pl_ptx_view_info *view = &pl_ptx_views[row->views[v] & ~PL_PTX_VIEW_NEED];
        if ((row->views[v] & PL_PTX_VIEW_NEED) && m->ins.mods[view->cat] == 0)
            for (uint32_t i = 0;; i++)
                if (view->members >> i & 1)
                    return pl_ptx_mods[pl_ptx_cat_first[view->cat] + i].text;
    }
    if (m->ins.n_types < PL_PTX_MAX_TYPES && row->types[m->ins.n_types] != 0)
        return "a type";
    return NULL;
}

static bool takes_row(struct match *m, enum pl_ptx_form form, const struct pl_ptx_opcode *op)
{
    const struct pl_ptx_row *row = &pl_ptx_rows[form];
    struct span head = head_of(op, pl_ptx_infos[form].mnemonic);
    m->ins = (struct pl_ptx_ins){.form = (uint16_t)form};
    m->is_refused_whole = row->views[0] == PL_PTX_VIEW_ANYTHING;
    m->missing = NULL;
    m->n_seen = 0;
    if (!takes_head(m, row, head))
        return false;
    list_words(m, head.s + head.n_bytes);
    for (; m->n_seen < m->n_tokens; m->n_seen++) {
        struct span token = m->tokens[m->n_seen];
        if (takes_word(m, token))
            continue;
        const struct pl_ptx_token *t = find_token(m->p, token);
        if (m->is_refused_whole ||
            (t != NULL && (takes_modifier(m, row, t) || takes_type(m, row, t))))
            continue;
        return false;
    }
    m->missing = find_missing(m, row);
    if (m->is_refused_whole && m->missing != NULL)
        m->n_seen = 0; /* taking any modifier tells nothing about the text */
    return m->missing == NULL;
}

/* ---- the operand pattern of a row, resolved ---- */

static enum pl_ptx_type type_named(struct span name)
{
    for (uint32_t type = 1; type < PL_PTX_TYPE_COUNT; type++)
        if (is_text(name, pl_ptx_types[type].text))
            return (enum pl_ptx_type)type;
    return PL_PTX_TYPE_NONE;
}

static enum pl_ptx_type type_twice(enum pl_ptx_type type)
{
    static const uint8_t twice[PL_PTX_TYPE_COUNT] = {[PL_PTX_TYPE_U16] = PL_PTX_TYPE_U32,
                                                     [PL_PTX_TYPE_S16] = PL_PTX_TYPE_S32,
                                                     [PL_PTX_TYPE_U32] = PL_PTX_TYPE_U64,
                                                     [PL_PTX_TYPE_S32] = PL_PTX_TYPE_S64};
    return (enum pl_ptx_type)twice[type];
}

static unsigned member_of(const struct pl_ptx_ins *ins, enum pl_ptx_cat cat)
{
    return ins->mods[cat] == 0 ? 0 : (unsigned)ins->mods[cat] - pl_ptx_cat_first[cat];
}

static unsigned vector_length(const struct pl_ptx_ins *ins)
{
    return ins->mods[PL_PTX_CAT_VEC] == 0 ? 1 : 2u << member_of(ins, PL_PTX_CAT_VEC);
}

/* Registers of a tcgen05.ld or .st: a repeat of 1 is 32 bits a thread for 32x32b and 16x64b, twice and four times that for
 * the wider shapes. */
static unsigned tmem_length(const struct pl_ptx_ins *ins)
{
    unsigned n = 1u << member_of(ins, PL_PTX_CAT_NUM);
    switch (ins->mods[PL_PTX_CAT_TSHAPE]) {
    case PL_PTX_MOD_TSHAPE_S16X128B: return n * 2;
    case PL_PTX_MOD_TSHAPE_S16X256B: return n * 4;
    }
    return n;
}

static unsigned coordinates(const struct pl_ptx_ins *ins)
{
    uint8_t mode = ins->mods[PL_PTX_CAT_TMODE];
    if (mode == PL_PTX_MOD_TMODE_GATHER4 || mode == PL_PTX_MOD_TMODE_SCATTER4)
        return 5;
    return member_of(ins, PL_PTX_CAT_DIM) + 1;
}

static unsigned im2col_offsets(const struct pl_ptx_ins *ins)
{
    switch (ins->mods[PL_PTX_CAT_TMODE]) {
    case PL_PTX_MOD_TMODE_IM2COL: return coordinates(ins) - 2;
    case PL_PTX_MOD_TMODE_IM2COL_W:
    case PL_PTX_MOD_TMODE_IM2COL_W_128: return 2;
    }
    return 0;
}

/* Selectors by the opcode: vadd2 has halves, vadd4 bytes, vadd one part. */
static void resolve_video(const struct pl_ptx_ins *ins, char kind, char letter,
                          struct pl_ptx_spec *spec)
{
    struct span op = opcode_of((enum pl_ptx_form)ins->form);
    char last = op.s[op.n_bytes - 1];
    spec->is_minus_ok = letter == 'x' || letter == 'y';
    if (letter == 'x')
        return;
    spec->select = last != '2' && last != '4' ? PL_PTX_SELECT_PART
                   : kind == 'd'              ? PL_PTX_SELECT_MASK
                                              : PL_PTX_SELECT_PARTS;
    spec->is_in_halves = last == '2';
}

/* The kind letters of one operand: fills want, n and the type that the letter itself implies. False: the operand is absent. */
static bool resolve_kind(const struct pl_ptx_ins *ins, struct span kind, struct pl_ptx_spec *spec)
{
    char a = kind.s[0], b = kind.n_bytes > 1 ? kind.s[1] : 0;
    switch (a) {
    case 'd': spec->want = PL_PTX_WANT_DST; break;
    case 's': spec->want = PL_PTX_WANT_SRC; break;
    case 'r': spec->want = PL_PTX_WANT_REG; break;
    case 'x': spec->want = PL_PTX_WANT_ANYSRC; break;
    case 'q': spec->want = PL_PTX_WANT_DPRED; return true;
    case 'p': spec->want = PL_PTX_WANT_SPRED; return true;
    case 'P': spec->want = PL_PTX_WANT_PRED_REG; return true;
    case 'i': spec->want = PL_PTX_WANT_INT; return true;
    case 'm': spec->want = PL_PTX_WANT_ADDR; return true;
    case 'o': spec->want = PL_PTX_WANT_REG_ADDR; break;
    case 'L': spec->want = PL_PTX_WANT_LABEL; return true;
    case 'B': spec->want = PL_PTX_WANT_LABELS; return true;
    case 'F': spec->want = PL_PTX_WANT_CALL; return true;
    case '*': spec->want = PL_PTX_WANT_ALL; return true;
    case 'D': spec->want = PL_PTX_WANT_DST; break;
    case 'S': spec->want = PL_PTX_WANT_SRC; break;
    case 'w': spec->want = PL_PTX_WANT_DVEC; break;
    case 'v': spec->want = PL_PTX_WANT_SVEC; break;
    case 'c':
        spec->want = PL_PTX_WANT_TENSOR;
        spec->n = (uint16_t)coordinates(ins);
        return true;
    case 't':
        spec->want = PL_PTX_WANT_OFFSETS;
        spec->n = (uint16_t)im2col_offsets(ins);
        return spec->n != 0;
    }
    if ((a == 'd' || a == 's' || a == 'r') && b >= 'x' && b <= 'z')
        resolve_video(ins, a, b, spec);
    if (a == 'D' || a == 'S')
        spec->type = (uint8_t)type_twice((enum pl_ptx_type)ins->types[0]);
    if ((a == 'd' || a == 's') && b == 'v') {
        spec->n = (uint16_t)vector_length(ins);
        spec->is_braced_ok = spec->n == 1;
        if (spec->n > 1)
            spec->want = a == 'd' ? PL_PTX_WANT_DVEC : PL_PTX_WANT_SVEC;
    }
    if (a != 'w' && a != 'v')
        return true;
    switch (b) {
    case 't': spec->n = (uint16_t)tmem_length(ins); break;
    case 'n': spec->n = (uint16_t)(1u << member_of(ins, PL_PTX_CAT_NUM)); break;
    case 'm': spec->n = (uint16_t)(2u << member_of(ins, PL_PTX_CAT_NUM)); break;
    case 'a':
        spec->n = (uint16_t)(ins->shape_n / (ins->types[0] == PL_PTX_TYPE_F16 ? 4 : 2));
        if (ins->types[0] == PL_PTX_TYPE_F16)
            spec->type = PL_PTX_TYPE_B32;
        break;
    case 'p': spec->want = a == 'w' ? PL_PTX_WANT_UNPACK : PL_PTX_WANT_PACK; break;
    case 's': spec->want = PL_PTX_WANT_SELECT; break;
    case 'd':
        spec->want = PL_PTX_WANT_LANES;
        spec->n = ins->mods[PL_PTX_CAT_CTA_GROUP] == PL_PTX_MOD_CTA_GROUP_G2 ? 8 : 4;
        break;
    default: spec->n = (uint16_t)(b - '0'); break;
    }
    return true;
}

static bool is_category_present(const struct pl_ptx_ins *ins, struct span name)
{
    static const char *const names[PL_PTX_CAT_COUNT] = {
#define CAT(id) #id,
#define MOD(cat, id, text)
#include "jit/ptx/mod.def"
#undef CAT
#undef MOD
    };
    for (int cat = 0; cat < PL_PTX_CAT_COUNT; cat++)
        if (is_text(name, names[cat]))
            return ins->mods[cat] != 0;
    PL_ASSERT(0 && "operand condition names no category");
    return false;
}

/* scale-input-d is for .kind::f16 and .kind::tf32. PTX ISA, tcgen05.mma */
static bool has_no_input_scale(const struct pl_ptx_ins *ins)
{
    uint8_t kind = ins->mods[PL_PTX_CAT_KIND];
    return kind == PL_PTX_MOD_KIND_F8F6F4 || kind == PL_PTX_MOD_KIND_I8;
}

/* One operand of a pattern, "L2HINT?s:b64" or "d:b32_|q?". False: not there under these modifiers. */
static bool resolve_operand(const struct pl_ptx_ins *ins, struct span item,
                            struct pl_ptx_spec *spec)
{
    *spec = (struct pl_ptx_spec){0};
    const char *mark = memchr(item.s, '?', item.n_bytes);
    if (mark != NULL && mark != item.s + item.n_bytes - 1) {
        struct span cat = {item.s, (size_t)(mark - item.s)};
        item = (struct span){mark + 1, item.n_bytes - cat.n_bytes - 1};
        if (!is_category_present(ins, cat))
            return false;
        mark = NULL;
    }
    const char *bar = memchr(item.s, '|', item.n_bytes);
    if (bar != NULL) {
        spec->pair = mark != NULL ? 1 : 2;
        item.n_bytes = (size_t)(bar - item.s);
    } else if (mark != NULL) {
        spec->is_optional = true;
        item.n_bytes--;
    }
    if (item.s[item.n_bytes - 1] == '_') {
        spec->has_sink = true;
        item.n_bytes--;
    }
    const char *colon = memchr(item.s, ':', item.n_bytes);
    struct span kind = {item.s, colon != NULL ? (size_t)(colon - item.s) : item.n_bytes};
    char last = kind.s[kind.n_bytes - 1];
    bool is_vector = kind.s[0] == 'w' || kind.s[0] == 'v';
    unsigned slot = !is_vector && last >= '0' && last <= '9' ? (unsigned)(last - '0') : 0;
    if (colon != NULL)
        spec->type = (uint8_t)type_named((struct span){colon + 1, item.n_bytes - kind.n_bytes - 1});
    else
        spec->type = ins->types[slot];
    return resolve_kind(ins, kind, spec) &&
           !(spec->is_optional && spec->want == PL_PTX_WANT_INT && has_no_input_scale(ins));
}

/* What a modifier asks of operands: an arrival at a peer's barrier gives no state, .ashift needs A in tensor memory. */
static void narrow_operand(const struct pl_ptx_ins *ins, struct pl_ptx_spec *spec)
{
    bool is_arrival = strncmp(pl_ptx_infos[ins->form].mnemonic, "mbarrier.arrive", 15) == 0;
    if (is_arrival && ins->mods[PL_PTX_CAT_SPACE] == PL_PTX_MOD_SPACE_SHARED_CLUSTER)
        spec->is_sink_only = spec->has_sink;
    if (spec->want == PL_PTX_WANT_REG_ADDR && ins->mods[PL_PTX_CAT_ASHIFT] != 0)
        spec->want = PL_PTX_WANT_ADDR;
}

/* May registers be wider than the type? PTX ISA, "Operand Size Exceeding Instruction-Type Size", but for the forms that ptxas excepts. */
static bool has_wide_registers(enum pl_ptx_form form)
{
    static const char *const opcodes[] = {"cvt", "ld", "ldu", "st"};
    struct span op = opcode_of(form);
    if (form == PL_PTX_st_async || form == PL_PTX_st_async_release || form == PL_PTX_cvt_int_bf16 ||
        form == PL_PTX_cvt_bf16_int)
        return false;
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++)
        if (is_text(op, opcodes[i]))
            return true;
    return false;
}

/* The formats of "Alternate Floating-Point Data Formats" stand in registers of their own size. */
static bool is_alternate(uint8_t type)
{
    enum pl_ptx_type t = (enum pl_ptx_type)type;
    bool is_packed = pl_ptx_types[type].class == PL_PTX_CLASS_PACKED;
    return t == PL_PTX_TYPE_BF16 || t == PL_PTX_TYPE_TF32 || (is_packed && t != PL_PTX_TYPE_F16X2);
}

static void resolve_operands(struct pl_ptx_shape *shape)
{
    bool is_wide_ok = has_wide_registers((enum pl_ptx_form)shape->ins.form);
    struct span op = opcode_of((enum pl_ptx_form)shape->ins.form);
    bool has_specials = is_text(op, "mov") || is_text(op, "cvt"); /* who reads special registers */
    const char *s = pl_ptx_infos[shape->ins.form].operands;
    while (*s != 0) {
        struct span item = {s, strcspn(s, ",")};
        struct pl_ptx_spec *spec = &shape->specs[shape->n_specs];
        PL_ASSERT(shape->n_specs < PL_PTX_MAX_OPERANDS);
        if (resolve_operand(&shape->ins, item, spec)) {
            narrow_operand(&shape->ins, spec);
            spec->is_wide_ok = is_wide_ok && !is_alternate(spec->type);
            spec->is_element_ok = is_wide_ok; /* the forms of these with addresses */
            spec->is_special_ok = has_specials;
            shape->n_specs++;
        }
        s += item.n_bytes;
        s += *s == ',';
    }
}

bool pl_ptx_resolve(struct pl_ptx_shape *shape)
{
    if (pl_ptx_find_conflict(&shape->ins) != NULL)
        return false;
    shape->n_specs = 0;
    resolve_operands(shape);
    return true;
}

/* ---- texts ---- */

static bool split_tokens(struct match *m, struct span text, size_t n_opcode)
{
    const char *end = text.s + text.n_bytes;
    for (const char *s = text.s + n_opcode; s < end;) {
        s++; /* the dot */
        size_t n = 0;
        while (s + n < end && s[n] != '.')
            n++;
        if (n == 0 || m->n_tokens == MAX_TOKENS)
            return false;
        m->tokens[m->n_tokens++] = (struct span){s, n};
        s += n;
    }
    return true;
}

static bool add_shape(struct pl_ptx_parser *p, struct match *m, struct span text, size_t n_opcode)
{
    struct pl_ptx_shape *shape = pl_vec_push(p->arena, &p->shapes);
    if (shape == NULL)
        return false;
    shape->ins = m->ins;
    if (m->is_refused_whole) {
        const char **kept = pl_vec_push(p->arena, &p->m->texts);
        if (kept == NULL)
            return false;
        *kept = pl_arena_strndup(p->arena, text.s + n_opcode, text.n_bytes - n_opcode);
        shape->text = p->m->texts.n;
    }
    resolve_operands(shape);
    return true;
}

/* Why no row took a text: the best of them. */
struct refusal {
    uint32_t n_seen;
    const char *missing, *conflict;
};

static bool fail_match(struct pl_ptx_parser *p, const struct match *m, const struct refusal *why,
                       const char *text, const char *at)
{
    if (why->conflict != NULL) {
        pl_d_ptx_modifier(&p->diags, pl_ptx_at(p, at), text, why->conflict);
    } else if (why->n_seen < m->n_tokens) {
        struct span token = m->tokens[why->n_seen];
        pl_d_ptx_modifier(&p->diags, pl_ptx_at(p, at), text,
                          pl_ptx_excerpt(p, token.s, token.n_bytes));
    } else {
        pl_d_ptx_incomplete(&p->diags, pl_ptx_at(p, at), text,
                            why->missing != NULL ? why->missing : "a modifier");
    }
    return false;
}

/* All rows of the opcode that take the text become shapes of *mn. */
static bool match_rows(struct pl_ptx_parser *p, struct match *m, const struct pl_ptx_opcode *op,
                       struct span text, struct pl_ptx_mnemonic *mn, struct refusal *why)
{
    mn->first_shape = p->shapes.n;
    for (uint32_t form = op->first; form < (uint32_t)op->first + op->n_rows; form++) {
        bool is_taken = takes_row(m, (enum pl_ptx_form)form, op);
        if (m->is_refused_whole && mn->n_shapes != 0)
            continue;
        if (is_taken && (why->conflict = pl_ptx_find_conflict(&m->ins)) == NULL) {
            if (!add_shape(p, m, text, op->n_bytes))
                return false;
            mn->n_shapes++;
        } else if (m->n_seen >= why->n_seen) {
            if (m->n_seen > why->n_seen || why->missing == NULL)
                why->missing = m->missing;
            why->n_seen = m->n_seen;
        }
    }
    return true;
}

static bool match_text(struct pl_ptx_parser *p, struct span text, const char *at,
                       struct pl_ptx_mnemonic *mn)
{
    struct match m;
    m.p = p;
    m.n_tokens = 0;
    struct span name = {text.s, 0};
    while (name.n_bytes < text.n_bytes && text.s[name.n_bytes] != '.')
        name.n_bytes++;
    const struct pl_ptx_opcode *op = find_opcode(p, name);
    if (op == NULL || !split_tokens(&m, text, name.n_bytes)) {
        pl_d_ptx_opcode(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, text.s, text.n_bytes));
        return false;
    }
    struct refusal why = {0};
    if (!match_rows(p, &m, op, text, mn, &why))
        return false;
    return mn->n_shapes != 0 ||
           fail_match(p, &m, &why, pl_ptx_excerpt(p, text.s, text.n_bytes), at);
}

static bool grow_mnemonics(struct pl_ptx_parser *p)
{
    uint32_t n = p->n_mnemonic_slots == 0 ? 256 : p->n_mnemonic_slots * 2;
    struct pl_ptx_mnemonic *slots = pl_arena_array(p->arena, n, sizeof *slots);
    if (slots == NULL)
        return false;
    for (uint32_t i = 0; i < p->n_mnemonic_slots; i++) {
        if (p->mnemonics[i].text == NULL)
            continue;
        uint32_t at = p->mnemonics[i].hash & (n - 1);
        while (slots[at].text != NULL)
            at = (at + 1) & (n - 1);
        slots[at] = p->mnemonics[i];
    }
    p->mnemonics = slots;
    p->n_mnemonic_slots = n;
    return true;
}

/* The run of name characters, dots and double colons at s; spaces before a dot are allowed, and dropped from the copy. */
static bool read_text(struct pl_ptx_parser *p, struct span *out)
{
    const char *s = p->s;
    for (;;) {
        while (pl_ptx_chars[(unsigned char)*s] & PL_PTX_C_NAME || *s == '.' ||
               (s[0] == ':' && s[1] == ':'))
            s += *s == ':' ? 2 : 1;
        const char *gap = s;
        while (pl_ptx_chars[(unsigned char)*gap] == PL_PTX_C_SPACE && *gap != '\n')
            gap++;
        if (gap == s || *gap != '.' || (size_t)(s - p->s) > MAX_MNEMONIC)
            break;
        char *joined = pl_arena_alloc(p->arena, MAX_MNEMONIC * 2);
        if (joined == NULL)
            return false;
        size_t n = 0;
        const char *c = p->s;
        for (; n < MAX_MNEMONIC; c++) {
            bool is_part = pl_ptx_chars[(unsigned char)*c] & PL_PTX_C_NAME || *c == '.' ||
                           (c[0] == ':' && c[1] == ':') || (*c == ':' && c[-1] == ':');
            if (is_part)
                joined[n++] = *c;
            else if (pl_ptx_chars[(unsigned char)*c] != PL_PTX_C_SPACE || *c == '\n' ||
                     c[strspn(c, " \t")] != '.')
                break;
        }
        p->s = c;
        *out = (struct span){joined, n};
        return true;
    }
    *out = (struct span){p->s, (size_t)(s - p->s)};
    p->s = s;
    return true;
}

bool pl_ptx_read_mnemonic(struct pl_ptx_parser *p, const struct pl_ptx_mnemonic **out)
{
    const char *at = p->s;
    struct span text;
    if (!read_text(p, &text))
        return false;
    if (text.n_bytes > MAX_MNEMONIC) {
        pl_d_ptx_opcode(&p->diags, pl_ptx_at(p, at), pl_ptx_excerpt(p, text.s, text.n_bytes));
        return false;
    }
    if (p->n_mnemonics * 2 >= p->n_mnemonic_slots && !grow_mnemonics(p))
        return false;
    uint32_t hash = hash_bytes(text.s, text.n_bytes);
    uint32_t i = hash & (p->n_mnemonic_slots - 1);
    for (; p->mnemonics[i].text != NULL; i = (i + 1) & (p->n_mnemonic_slots - 1)) {
        const struct pl_ptx_mnemonic *mn = &p->mnemonics[i];
        if (mn->hash == hash && is_same((struct span){mn->text, mn->n_bytes}, text)) {
            *out = mn;
            return true;
        }
    }
    struct pl_ptx_mnemonic mn = {.text = text.s, .n_bytes = (uint32_t)text.n_bytes, .hash = hash};
    if (!match_text(p, text, at, &mn))
        return false;
    p->mnemonics[i] = mn;
    p->n_mnemonics++;
    *out = &p->mnemonics[i];
    return true;
}
