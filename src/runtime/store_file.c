#include "src/runtime/store_file.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = {'P', 'L', 'A', 'U', 'N', 'C', 'H', 2};
enum { HEAD_BYTES = 32, HEAD_LINES = 3 };

static void put_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void checksum(const uint8_t *data, size_t n_bytes, uint8_t out[PL_ENTRY_SUM_BYTES])
{
    put_u64(out, pl_hash64(data, n_bytes, 1));
    put_u64(out + 8, pl_hash64(data, n_bytes, 2));
}

bool pl_content_make(struct pl_content *out, struct pl_arena *arena, const char *target,
                     const char *assembler, const char *options, struct pl_blob text)
{
    char *head = pl_arena_printf(arena, "%s\n%s\n%s\n", target, assembler, options);
    if (head == NULL)
        return false;
    *out = (struct pl_content){
        .head = head, .head_bytes = strlen(head), .text = text.data, .text_bytes = text.n_bytes};
    const void *parts[2] = {head, text.data};
    size_t n_bytes[2] = {out->head_bytes, text.n_bytes};
    out->hash = pl_sha256_of_parts(2, parts, n_bytes);
    return true;
}

void pl_entry_name(const struct pl_content *c, char name[PL_ENTRY_NAME_BYTES])
{
    char hex[65];
    pl_sha256_hex(&c->hash, hex);
    snprintf(name, PL_ENTRY_NAME_BYTES, "%.2s/%s", hex, hex + 2);
}

/* target, assembler and options, a line each, then the text. */
static struct pl_content split_key(const char *key, size_t n_bytes)
{
    size_t head = 0;
    for (int lines = 0; head < n_bytes && lines < HEAD_LINES; head++)
        lines += key[head] == '\n';
    struct pl_content c = {
        .head = key, .head_bytes = head, .text = key + head, .text_bytes = n_bytes - head};
    const void *parts[2] = {c.head, c.text};
    const size_t sizes[2] = {c.head_bytes, c.text_bytes};
    c.hash = pl_sha256_of_parts(2, parts, sizes);
    return c;
}

/* The parts of a file that is whole: key, notes, code. */
static const char *take_apart(const uint8_t *file, size_t n_bytes, struct pl_blob *key,
                              struct pl_stored *out)
{
    if (n_bytes < HEAD_BYTES + PL_ENTRY_SUM_BYTES || memcmp(file, magic, sizeof magic) != 0)
        return "not an entry";
    uint64_t key_bytes = get_u64(file + 8), notes_bytes = get_u64(file + 16);
    uint64_t code_bytes = get_u64(file + 24);
    if (key_bytes > n_bytes || notes_bytes > n_bytes || code_bytes > n_bytes ||
        HEAD_BYTES + key_bytes + notes_bytes + code_bytes + PL_ENTRY_SUM_BYTES != n_bytes)
        return "cut short";
    uint8_t sum[PL_ENTRY_SUM_BYTES];
    checksum(file, n_bytes - PL_ENTRY_SUM_BYTES, sum);
    if (memcmp(sum, file + n_bytes - PL_ENTRY_SUM_BYTES, PL_ENTRY_SUM_BYTES) != 0)
        return "checksum differs";
    *key = (struct pl_blob){file + HEAD_BYTES, (size_t)key_bytes};
    const uint8_t *notes = file + HEAD_BYTES + key_bytes;
    out->notes = (struct pl_blob){notes, (size_t)notes_bytes};
    out->code = (struct pl_blob){notes + notes_bytes, (size_t)code_bytes};
    return NULL;
}

const char *pl_entry_parse(const uint8_t *file, size_t n_bytes, struct pl_content *content,
                           struct pl_stored *out)
{
    struct pl_blob key;
    const char *wrong = take_apart(file, n_bytes, &key, out);
    if (wrong == NULL)
        *content = split_key(key.data, key.n_bytes);
    return wrong;
}

const char *pl_entry_why_not(const uint8_t *file, size_t n_bytes, const struct pl_content *c,
                             struct pl_stored *out)
{
    struct pl_blob key;
    const char *wrong = take_apart(file, n_bytes, &key, out);
    if (wrong != NULL)
        return wrong;
    const char *text = key.data;
    if (key.n_bytes != c->head_bytes + c->text_bytes || memcmp(text, c->head, c->head_bytes) != 0 ||
        memcmp(text + c->head_bytes, c->text, c->text_bytes) != 0)
        return "made from other text";
    return NULL;
}

static uint8_t *put_bytes(uint8_t *p, const void *data, size_t n_bytes)
{
    if (n_bytes != 0)
        memcpy(p, data, n_bytes);
    return p + n_bytes;
}

struct pl_blob pl_entry_make(const struct pl_content *c, const struct pl_stored *what,
                             struct pl_arena *arena)
{
    size_t key_bytes = c->head_bytes + c->text_bytes;
    size_t n_bytes =
        HEAD_BYTES + key_bytes + what->notes.n_bytes + what->code.n_bytes + PL_ENTRY_SUM_BYTES;
    uint8_t *file = pl_arena_alloc(arena, n_bytes);
    if (file == NULL)
        return (struct pl_blob){NULL, 0};
    memcpy(file, magic, sizeof magic);
    put_u64(file + 8, key_bytes);
    put_u64(file + 16, what->notes.n_bytes);
    put_u64(file + 24, what->code.n_bytes);
    uint8_t *p = put_bytes(file + HEAD_BYTES, c->head, c->head_bytes);
    p = put_bytes(p, c->text, c->text_bytes);
    p = put_bytes(p, what->notes.data, what->notes.n_bytes);
    p = put_bytes(p, what->code.data, what->code.n_bytes);
    checksum(file, n_bytes - PL_ENTRY_SUM_BYTES, p);
    return (struct pl_blob){file, n_bytes};
}
