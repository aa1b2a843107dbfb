#include "emu/api/obj.h"

#include "base/debug.h"

#include <stdlib.h>
#include <string.h>

/*
 * A handle: | 0 .. | tag (4 bits) | kind (4) | generation (16) | index (20) | 0000 |. The tag puts it above every address that
 * user space has on x86-64 and AArch64 with 47 bits, so it differs from 0, 1 and 2 (the special streams) and from pointers.
 */
enum { INDEX_SHIFT = 4, INDEX_BITS = 20, GENERATION_SHIFT = 24, KIND_SHIFT = 40, TAG_SHIFT = 48 };
#define TAG UINT64_C(0xC)

static struct {
    struct pl_obj **slots;
    uint16_t *generations;
    uint32_t n, cap, first_free_hint;
    uint32_t n_alive[PL_OBJ_KIND_COUNT];
} table;

static bool grow(void)
{
    uint32_t cap = table.cap == 0 ? 256 : table.cap * 2;
    if (cap > (1u << INDEX_BITS))
        return false;
    struct pl_obj **slots = realloc(table.slots, cap * sizeof *slots);
    if (slots == NULL)
        return false;
    table.slots = slots;
    uint16_t *generations = realloc(table.generations, cap * sizeof *generations);
    if (generations == NULL)
        return false;
    table.generations = generations;
    memset(slots + table.cap, 0, (cap - table.cap) * sizeof *slots);
    memset(generations + table.cap, 0, (cap - table.cap) * sizeof *generations);
    table.cap = cap;
    return true;
}

bool pl_obj_add(struct pl_obj *o, enum pl_obj_kind kind)
{
    PL_ASSERT(o->kind == PL_OBJ_NONE);
    uint32_t i = table.first_free_hint;
    while (i < table.cap && table.slots[i] != NULL)
        i++;
    if (i == table.cap && !grow())
        return false;
    table.first_free_hint = i + 1;
    table.slots[i] = o;
    o->kind = (uint8_t)kind;
    o->index = i;
    o->generation = ++table.generations[i];
    table.n_alive[kind]++;
    return true;
}

void pl_obj_remove(struct pl_obj *o)
{
    if (o->kind == PL_OBJ_NONE)
        return;
    PL_ASSERT(table.slots[o->index] == o);
    table.slots[o->index] = NULL;
    table.n_alive[o->kind]--;
    if (o->index < table.first_free_hint)
        table.first_free_hint = o->index;
    o->kind = PL_OBJ_NONE;
}

void *pl_obj_find(const void *handle, enum pl_obj_kind kind)
{
    uint64_t h = (uint64_t)(uintptr_t)handle;
    uint32_t index = (uint32_t)(h >> INDEX_SHIFT) & ((1u << INDEX_BITS) - 1);
    if (index >= table.cap || table.slots[index] == NULL)
        return NULL;
    struct pl_obj *o = table.slots[index];
    return o->kind == kind && pl_obj_handle(o) == handle ? o : NULL;
}

void *pl_obj_handle(const struct pl_obj *o)
{
    uint64_t h = TAG << TAG_SHIFT | (uint64_t)o->kind << KIND_SHIFT |
                 (uint64_t)o->generation << GENERATION_SHIFT | (uint64_t)o->index << INDEX_SHIFT;
    return (void *)(uintptr_t)h;
}

uint32_t pl_obj_count(enum pl_obj_kind kind) { return table.n_alive[kind]; }

void *pl_obj_next(uint32_t *i, enum pl_obj_kind kind)
{
    while (*i < table.cap) {
        struct pl_obj *o = table.slots[(*i)++];
        if (o != NULL && o->kind == kind)
            return o;
    }
    return NULL;
}
