/*
 * What memory remembers: for each granule its last write, and the reads since then that nothing has ordered before a later one.
 *
 * A granule is as small as the finest access that its page has seen; it begins with 16 bytes and only ever gets smaller. Of
 * reads by other clusters two are kept: enough to find a write that none of them is ordered with.
 */
#include "emu/race/state.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096, MOST_FOREIGN = 2, NO_READ = 0 };

/* ---- accesses -------------------------------------------------------------------------------------------------------- */

struct pl_race_access *pl_race_access_at(const struct pl_emu_race_grid *g, uint32_t number)
{
    return &g->chunks[(number - 1) / CHUNK][(number - 1) % CHUNK];
}

uint32_t pl_race_access_add(struct pl_emu_race_grid *g, const struct pl_race_access *a)
{
    if (g->n_accesses == g->n_chunks * CHUNK) {
        struct pl_race_access **grown = realloc(g->chunks, (g->n_chunks + 1) * sizeof *grown);
        struct pl_race_access *chunk = malloc(CHUNK * sizeof *chunk);
        if (grown != NULL)
            g->chunks = grown;
        if (grown == NULL || chunk == NULL || g->n_accesses > UINT32_MAX - 2 * CHUNK) {
            free(chunk);
            g->is_lost = true;
            return 0;
        }
        g->chunks[g->n_chunks++] = chunk;
    }
    uint32_t number = ++g->n_accesses;
    *pl_race_access_at(g, number) = *a;
    return number;
}

/* ---- pages ------------------------------------------------------------------------------------------------------------- */

bool pl_race_space_init(struct pl_race_space *s, uint32_t n_bytes)
{
    *s = (struct pl_race_space){.cap = n_bytes / PL_RACE_PAGE_BYTES + 1};
    s->pages = calloc(s->cap, sizeof(struct pl_race_page *));
    return s->pages != NULL;
}

void pl_race_space_fini(struct pl_race_space *s)
{
    for (uint32_t i = 0; s->pages != NULL && i < s->cap; i++)
        free(s->pages[i]);
    free(s->pages);
    free(s->keys);
    *s = (struct pl_race_space){0};
}

static struct pl_race_page *make_page(uint32_t shift)
{
    uint32_t n = PL_RACE_PAGE_BYTES >> shift;
    struct pl_race_page *p = calloc(1, sizeof *p + n * sizeof p->cells[0]);
    if (p != NULL)
        p->shift = shift;
    return p;
}

static uint32_t find_key(const struct pl_race_space *s, uint64_t key)
{
    uint32_t i = (uint32_t)(pl_hash64(&key, sizeof key, 0) & (s->cap - 1));
    while (s->keys[i] != 0 && s->keys[i] != key)
        i = (i + 1) & (s->cap - 1);
    return i;
}

static bool grow(struct pl_race_space *s)
{
    struct pl_race_space old = *s;
    s->cap = old.cap == 0 ? 1024 : old.cap * 2;
    s->keys = calloc(s->cap, sizeof *s->keys);
    s->pages = calloc(s->cap, sizeof(struct pl_race_page *));
    if (s->keys == NULL || s->pages == NULL) {
        free(s->keys);
        free(s->pages);
        *s = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.keys[i] != 0) {
            uint32_t at = find_key(s, old.keys[i]);
            s->keys[at] = old.keys[i];
            s->pages[at] = old.pages[i];
        }
    free(old.keys);
    free(old.pages);
    return true;
}

/* Where the pointer to a page is; NULL: no memory. */
static struct pl_race_page **slot_of_page(struct pl_race_space *s, uint64_t page)
{
    bool is_array = s->keys == NULL && s->pages != NULL;
    if (is_array)
        return page < s->cap ? &s->pages[page] : NULL;
    if (s->n >= s->cap / 2 && !grow(s))
        return NULL;
    uint32_t at = find_key(s, page + 1);
    if (s->keys[at] == 0) {
        s->keys[at] = page + 1;
        s->n++;
    }
    return &s->pages[at];
}

/* ---- reads beside the first ------------------------------------------------------------------------------------------- */

static struct pl_race_read *read_at(struct pl_emu_race_grid *g, uint32_t node)
{
    return &g->reads[node - 1];
}

static uint32_t new_read(struct pl_emu_race_grid *g, uint32_t access, uint32_t lanes, uint32_t next)
{
    uint32_t node = g->free_read;
    if (node != NO_READ)
        g->free_read = read_at(g, node)->next;
    else {
        if (g->n_reads == g->cap_reads) {
            uint32_t cap = g->cap_reads == 0 ? 1024 : g->cap_reads * 2;
            struct pl_race_read *grown =
                cap < 1u << 27 ? realloc(g->reads, cap * sizeof *grown) : NULL;
            if (grown == NULL) {
                g->is_lost = true;
                return next;
            }
            g->reads = grown;
            g->cap_reads = cap;
        }
        node = ++g->n_reads;
    }
    *read_at(g, node) = (struct pl_race_read){access, lanes, next};
    return node;
}

static void free_reads(struct pl_emu_race_grid *g, struct pl_race_cell *c)
{
    for (uint32_t node = c->more, next; node != NO_READ; node = next) {
        next = read_at(g, node)->next;
        read_at(g, node)->next = g->free_read;
        g->free_read = node;
    }
    c->more = NO_READ;
}

/* The same page in granules of 1 << shift bytes, each remembering what the larger one did. */
static struct pl_race_page *split(struct pl_emu_race_grid *g, struct pl_race_page *p,
                                  uint32_t shift)
{
    struct pl_race_page *fine = make_page(shift);
    if (fine == NULL)
        return NULL;
    for (uint32_t i = 0; i < (uint32_t)PL_RACE_PAGE_BYTES >> shift; i++) {
        const struct pl_race_cell *from = &p->cells[i << shift >> p->shift];
        struct pl_race_cell *to = &fine->cells[i];
        *to = *from;
        to->more = NO_READ;
        for (uint32_t node = from->more; node != NO_READ; node = read_at(g, node)->next)
            to->more = new_read(g, read_at(g, node)->access, read_at(g, node)->lanes, to->more) &
                       ((1u << 27) - 1);
    }
    for (uint32_t i = 0; i < (uint32_t)PL_RACE_PAGE_BYTES >> p->shift; i++)
        free_reads(g, &p->cells[i]);
    free(p);
    return fine;
}

/* ---- what an access finds ------------------------------------------------------------------------------------------------ */

/* Operations of the matrix unit that execute in their order of issue. Source: PTX ISA, tcgen05: Pipelined Instructions. That a
 * cp may follow an mma of its own thread which only reads there is practice: docs/hardware-assumptions.md. */
static bool is_pipelined(const struct pl_race_access *a, const struct pl_race_actor *x)
{
    const struct pl_race_access *b = x->access;
    if (a->pipe == PL_RACE_PIPE_CP || a->pipe == PL_RACE_PIPE_SHIFT)
        return b->pipe == PL_RACE_PIPE_D || b->pipe == PL_RACE_PIPE_OPERAND;
    if (a->pipe == PL_RACE_PIPE_D && b->pipe == PL_RACE_PIPE_D)
        return a->pipe_key == b->pipe_key;
    if (b->pipe == PL_RACE_PIPE_SHIFT)
        return a->pipe == PL_RACE_PIPE_D || a->pipe == PL_RACE_PIPE_OPERAND;
    return a->pipe == PL_RACE_PIPE_OPERAND && b->pipe == PL_RACE_PIPE_CP && a->warp == b->warp &&
           a->lanes == b->lanes;
}

/* The end of an operation that is in order before this one is known to who learns of this one's end. */
static void follow(struct pl_race_actor *x, const struct pl_race_access *a)
{
    struct pl_race_slot *s = &x->r->slots[a->agent - x->r->n_warps];
    if (x->slot != NULL && s->tick == (a->tick & ~1u))
        pl_race_set_join(x->r, &x->slot->end, &s->end);
}

/* True: the earlier access by these lanes comes before the new one, or need not. */
static bool is_ordered(struct pl_race_actor *x, uint32_t number, uint32_t lanes, uint64_t address)
{
    const struct pl_race_access *a = pl_race_access_at(x->r->grid, number);
    if (number == x->number || (a->is_strong && x->access->is_strong))
        return true;
    uint8_t kind = a->is_generic && a->is_write ? x->sees_write : x->sees;
    if (pl_race_knows(x, a, lanes, a->tick, kind))
        return true;
    if (x->slot == NULL && kind == PL_RACE_T &&
        (pl_race_knows(x, a, lanes, a->tick, PL_RACE_G) ||
         pl_race_knows(x, a, lanes, a->tick, PL_RACE_T_IN)))
        return true; /* tcgen05.dealloc is synchronous: what orders threads orders it */
    if (x->slot != NULL && kind == PL_RACE_T && a->cluster == x->r->cluster &&
        pl_race_clock_covers(x->slot->end.c[PL_RACE_T], a->agent, lanes, a->tick))
        return true; /* it ends before one that this operation is in order behind */
    if (kind == PL_RACE_T && is_pipelined(a, x) &&
        pl_race_knows(x, a, lanes, a->tick & ~1u, PL_RACE_T)) {
        follow(x, a);
        return true;
    }
    uint8_t happened = kind == PL_RACE_S ? PL_RACE_R : PL_RACE_G;
    pl_race_report(x, a, lanes, address,
                   kind != PL_RACE_G && kind != PL_RACE_R &&
                       pl_race_knows(x, a, lanes, a->tick, happened));
    return false;
}

static uint32_t lanes_of_write(const struct pl_race_cell *c, const struct pl_race_access *a)
{
    return a->is_per_lane ? 1u << c->write_lane : a->lanes;
}

static bool check_write(struct pl_race_actor *x, const struct pl_race_cell *c, uint64_t address)
{
    if (c->write == 0)
        return true;
    const struct pl_race_access *a = pl_race_access_at(x->r->grid, c->write);
    return is_ordered(x, c->write, lanes_of_write(c, a), address);
}

static bool check_reads(struct pl_race_actor *x, const struct pl_race_cell *c, uint64_t address)
{
    if (c->read != 0 && !is_ordered(x, c->read, c->read_lanes, address))
        return false;
    for (uint32_t node = c->more; node != NO_READ;) {
        struct pl_race_read r = *read_at(x->r->grid, node);
        if (!is_ordered(x, r.access, r.lanes, address))
            return false;
        node = r.next;
    }
    return true;
}

/* Take out of a read what the new one makes needless: the same lanes of a thread, or lanes that it knows of. Returns what is
 * left. */
static uint32_t lanes_left(const struct pl_race_actor *x, uint32_t number, uint32_t lanes)
{
    const struct pl_race_access *a = pl_race_access_at(x->r->grid, number);
    if (a->is_strong && !x->access->is_strong)
        return lanes;
    if (a->agent == x->access->agent && a->cluster == x->access->cluster && !a->is_async)
        lanes &= ~x->lanes;
    return lanes == 0 || pl_race_knows(x, a, lanes, a->tick, x->sees) ? 0 : lanes;
}

static void remember_read(struct pl_race_actor *x, struct pl_race_cell *c)
{
    struct pl_emu_race_grid *g = x->r->grid;
    if (c->read == x->number || c->read == 0) {
        c->read_lanes = x->lanes | (c->read == 0 ? 0 : c->read_lanes);
        c->read = x->number;
        return;
    }
    uint32_t old = c->read, left = lanes_left(x, old, c->read_lanes), n_foreign = 0, last = NO_READ;
    c->read = x->number;
    c->read_lanes = x->lanes;
    for (uint32_t node = c->more, next; node != NO_READ; node = next) {
        struct pl_race_read *r = read_at(g, node);
        next = r->next;
        if (r->access == x->number)
            c->read_lanes |= r->lanes;
        r->lanes = r->access == x->number ? 0 : lanes_left(x, r->access, r->lanes);
        n_foreign += pl_race_access_at(g, r->access)->cluster != x->r->cluster;
        bool is_gone = r->lanes == 0 || n_foreign > MOST_FOREIGN;
        if (is_gone) {
            if (last == NO_READ)
                c->more = next & ((1u << 27) - 1);
            else
                read_at(g, last)->next = next;
            r->next = g->free_read;
            g->free_read = node;
        } else
            last = node;
    }
    if (left != 0)
        c->more = new_read(g, old, left, c->more) & ((1u << 27) - 1);
}

static void remember_write(struct pl_race_actor *x, struct pl_race_cell *c)
{
    c->write = x->number;
    c->write_lane = (uint32_t)__builtin_ctz(x->lanes) & 31;
    c->read = 0;
    free_reads(x->r->grid, c);
}

enum pl_emu_status pl_race_touch(struct pl_race_actor *x, struct pl_race_cell *c, uint64_t address)
{
    if ((x->is_write && !check_reads(x, c, address)) || !check_write(x, c, address))
        return PL_EMU_FAULT;
    if (x->is_write)
        remember_write(x, c);
    else
        remember_read(x, c);
    return PL_EMU_NEXT;
}

enum pl_emu_status pl_race_touch_range(struct pl_race_actor *x, struct pl_race_space *s,
                                       uint64_t address, uint64_t n_bytes)
{
    for (uint64_t end = address + n_bytes; address < end;) {
        uint64_t page_end = (address / PL_RACE_PAGE_BYTES + 1) * PL_RACE_PAGE_BYTES,
                 part_end = end < page_end ? end : page_end;
        struct pl_race_page **p = slot_of_page(s, address / PL_RACE_PAGE_BYTES);
        uint64_t at = address % PL_RACE_PAGE_BYTES, n = part_end - address;
        uint32_t shift = (uint32_t)__builtin_ctzll(at | n | 1u << PL_RACE_MOST_SHIFT);
        if (p == NULL)
            return PL_EMU_NEXT; /* outside memory, or none left */
        if (*p == NULL)
            *p = make_page(shift);
        else if ((*p)->shift > shift) {
            struct pl_race_page *fine = split(x->r->grid, *p, shift);
            x->r->is_lost |= fine == NULL;
            *p = fine != NULL ? fine : *p;
        }
        if (*p == NULL || x->r->is_lost) {
            x->r->is_lost = true;
            return PL_EMU_NEXT;
        }
        shift = (*p)->shift;
        for (uint64_t i = at >> shift; i < (at + n) >> shift; i++)
            if (pl_race_touch(x, &(*p)->cells[i], address + (i << shift) - at) != PL_EMU_NEXT)
                return PL_EMU_FAULT;
        address = part_end;
    }
    return PL_EMU_NEXT;
}

void pl_race_settle_write(struct pl_race_space *s, uint64_t address, uint64_t n_bytes)
{
    for (uint64_t end = address + n_bytes; address < end; address++) {
        struct pl_race_page **p = slot_of_page(s, address / PL_RACE_PAGE_BYTES);
        if (p != NULL && *p != NULL)
            (*p)->cells[address % PL_RACE_PAGE_BYTES >> (*p)->shift].write = 0;
    }
}
