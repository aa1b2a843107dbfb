#include "emu/cluster.h"

#include "base/debug.h"
#include "base/diag.h"
#include "emu/async.h"
#include "emu/device.h"
#include "emu/faults.h"
#include "emu/program.h"
#include "emu/race.h"
#include "emu/warp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SLICE = 256,       /* warp instructions of a turn */
    MAX_STRAGGLE = 16, /* rounds that a warp may be held up */
    REPORT_LINES = 24, /* waiting groups that a report names */
    REPORT_BYTES = 4096,
};

/* Address space of a cluster's local memory: beyond it a launch is refused rather than the host's limits tried. */
#define MOST_LOCAL_BYTES ((size_t)1 << 40)

/* What a cluster's storage owns beside itself; cl->storage. */
struct storage {
    struct pl_arena arena; /* of diagnostics */
    struct pl_diags diags;
    uint8_t *sregs;  /* of all warps */
    uint8_t *shared; /* of all CTAs */
    uint64_t *written;
    uint8_t *local; /* mapped: only what is used costs memory */
    size_t local_n_bytes, shared_stride_bytes, written_stride_words;
    struct pl_emu_warp *warps;
    uint32_t n_warps; /* of a CTA */
    bool is_filled;   /* slots that are the same for every cluster */
};

/* ---- storage --------------------------------------------------------------------------------------------------------------------------- */

static uint32_t volume(const uint32_t v[3]) { return v[0] * v[1] * v[2]; }

static uint32_t shared_bytes(const struct pl_emu_grid *g)
{
    uint32_t fixed = g->entry->shared_bytes, align = g->entry->dynamic_align_bytes;
    if (g->dynamic_shared_bytes == 0)
        return fixed;
    return (fixed + align - 1) / align * align + g->dynamic_shared_bytes;
}

/* PTX ISA, %total_smem_size: a multiple of what shared memory is given out in, 128 bytes from sm_8x on. */
static uint32_t total_shared(const struct pl_emu_grid *g)
{
    return (shared_bytes(g) + 127) / 128 * 128;
}

/* Where in its window a CTA's reserved memory begins. */
static uint32_t reserved_begin(const struct pl_emu_grid *g)
{
    return g->device->shared_base_bytes == 0 ? total_shared(g) : 0;
}

/*
 * The window that a CTA may touch: its own memory, and what the system reserves too where the program reads its offsets
 * (%reserved_smem_offset_0, _1), as cooperative groups do for tiles of several warps.
 */
static uint32_t window_base(const struct pl_emu_grid *g)
{
    return g->entry->uses_reserved ? 0 : g->device->shared_base_bytes;
}

static uint32_t window_bytes(const struct pl_emu_grid *g)
{
    if (!g->entry->uses_reserved)
        return shared_bytes(g);
    uint32_t begin = reserved_begin(g);
    return PL_EMU_SHARED_RESERVED_BYTES + (begin != 0 ? begin : shared_bytes(g));
}

static uint32_t local_stride(const struct pl_emu_grid *g)
{
    uint32_t n = PL_EMU_LOCAL_BASE + g->entry->deepest_bytes;
    if (g->entry->is_deep_unknown)
        n += g->stack_bytes;
    return (n + 15) / 16 * 16; /* exact: the byte behind it is out of bounds */
}

static bool make_memories(struct pl_emu_cluster *cl, struct storage *s)
{
    const struct pl_emu_grid *g = cl->grid;
    uint32_t n_warps = cl->n_ctas * s->n_warps;
    uint32_t n_shared = window_bytes(g);
    s->shared_stride_bytes = (n_shared + 1023) / 1024 * 1024;
    s->written_stride_words = s->shared_stride_bytes / 64;
    s->sregs = aligned_alloc(64, ((size_t)g->program->sreg_bytes + 64) * n_warps / 64 * 64 + 64);
    s->warps = calloc(n_warps, sizeof *s->warps);
    cl->ctas = calloc(cl->n_ctas, sizeof *cl->ctas);
    if (n_shared != 0)
        s->shared = aligned_alloc(1024, s->shared_stride_bytes * cl->n_ctas);
    if (n_shared != 0 && g->device->config.check != PL_EMU_CHECK_OFF)
        s->written = calloc(s->written_stride_words * cl->n_ctas, sizeof *s->written);
    cl->local_stride_bytes = local_stride(g);
    if (cl->local_stride_bytes > PL_EMU_LOCAL_BASE) {
        s->local_n_bytes = (size_t)cl->local_stride_bytes * PL_EMU_LANES * n_warps;
        if (s->local_n_bytes > MOST_LOCAL_BYTES)
            return false;
        s->local = mmap(NULL, s->local_n_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    return s->sregs != NULL && s->warps != NULL && cl->ctas != NULL &&
           (n_shared == 0 || s->shared != NULL) && s->local != MAP_FAILED &&
           (n_shared == 0 || g->device->config.check == PL_EMU_CHECK_OFF || s->written != NULL);
}

struct pl_emu_cluster *pl_emu_cluster_create(struct pl_emu_grid *g)
{
    struct pl_emu_cluster *cl = calloc(1, sizeof *cl);
    struct storage *s = calloc(1, sizeof *s);
    if (cl == NULL || s == NULL) {
        free(cl);
        free(s);
        return NULL;
    }
    cl->grid = g;
    cl->storage = s;
    cl->n_ctas = volume(g->cluster);
    s->n_warps = (volume(g->block) + PL_EMU_LANES - 1) / PL_EMU_LANES;
    pl_diags_init(&s->diags, &s->arena);
    cl->faults = &s->diags;
    if (make_memories(cl, s))
        return cl;
    pl_emu_cluster_destroy(cl);
    return NULL;
}

void pl_emu_cluster_destroy(struct pl_emu_cluster *cl)
{
    if (cl == NULL)
        return;
    struct storage *s = cl->storage;
    pl_race_end(cl);
    if (cl->async != NULL)
        pl_emu_async_fini(cl);
    for (uint32_t i = 0; s->warps != NULL && i < cl->n_ctas * s->n_warps; i++)
        pl_emu_warp_fini(&s->warps[i]);
    if (s->local != NULL && s->local != MAP_FAILED)
        munmap(s->local, s->local_n_bytes);
    free(s->sregs);
    free(s->warps);
    free(s->shared);
    free(s->written);
    free(cl->ctas);
    pl_arena_fini(&s->arena);
    free(s);
    free(cl);
}

/* ---- start: coordinates and special registers -------------------------------------------------------------------------------------------- */

static void split_index(uint32_t index, const uint32_t extent[3], uint32_t out[3])
{
    out[0] = index % extent[0];
    out[1] = index / extent[0] % extent[1];
    out[2] = index / extent[0] / extent[1];
}

static uint32_t thread_id(const struct pl_emu_warp *w, uint32_t lane, uint32_t dim)
{
    uint32_t id[3];
    split_index(w->index * PL_EMU_LANES + lane, w->cta->cluster->grid->block, id);
    return dim < 3 ? id[dim] : 0;
}

/* A special register that is the same in all lanes; per-lane ones are in fill_slot. PTX ISA, "Special Registers". */
static uint64_t uniform_sreg(const struct pl_emu_warp *w, uint16_t sreg, uint32_t dim)
{
    const struct pl_emu_cta *cta = w->cta;
    const struct pl_emu_cluster *cl = cta->cluster;
    const struct pl_emu_grid *g = cl->grid;
    uint32_t in_cluster[3];
    split_index(cta->rank, g->cluster, in_cluster);
    bool is_xyz = dim < 3;
    switch (sreg) {
    case PL_PTX_SREG_ntid: return is_xyz ? g->block[dim] : 1;
    case PL_PTX_SREG_warpid: return w->index;
    case PL_PTX_SREG_nwarpid: return PL_EMU_MAX_WARPS * 2;
    case PL_PTX_SREG_ctaid: return is_xyz ? cta->id[dim] : 0;
    case PL_PTX_SREG_nctaid: return is_xyz ? g->grid[dim] : 1;
    case PL_PTX_SREG_smid: return cl->sm;
    case PL_PTX_SREG_nsmid: return g->device->config.n_sms;
    case PL_PTX_SREG_gridid: return g->id;
    case PL_PTX_SREG_is_explicit_cluster: return g->is_explicit_cluster;
    case PL_PTX_SREG_clusterid: return is_xyz ? cl->id[dim] : 0;
    case PL_PTX_SREG_nclusterid: return is_xyz ? g->grid[dim] / g->cluster[dim] : 1;
    case PL_PTX_SREG_cluster_ctaid: return is_xyz ? in_cluster[dim] : 0;
    case PL_PTX_SREG_cluster_nctaid: return is_xyz ? g->cluster[dim] : 1;
    case PL_PTX_SREG_cluster_ctarank: return cta->rank;
    case PL_PTX_SREG_cluster_nctarank: return cl->n_ctas;
    case PL_PTX_SREG_total_smem_size: return total_shared(g);
    case PL_PTX_SREG_aggr_smem_size: return total_shared(g) + PL_EMU_SHARED_RESERVED_BYTES;
    case PL_PTX_SREG_dynamic_smem_size: return g->dynamic_shared_bytes;
    case PL_PTX_SREG_reserved_smem_begin:
    case PL_PTX_SREG_reserved_smem_0:
    case PL_PTX_SREG_reserved_smem_1: return reserved_begin(g);
    case PL_PTX_SREG_reserved_smem_end:
    case PL_PTX_SREG_reserved_smem_cap: return reserved_begin(g) + PL_EMU_SHARED_RESERVED_BYTES;
    case PL_PTX_SREG_envreg1: return g->workspace >> 32;
    case PL_PTX_SREG_envreg2: return (uint32_t)g->workspace;
    case PL_PTX_SREG_warp_sz: return PL_EMU_LANES;
    default: return 0; /* performance monitors, current_graph_exec, other envreg */
    }
}

static uint64_t lane_sreg(const struct pl_emu_warp *w, const struct pl_emu_slot *slot,
                          uint32_t lane)
{
    uint32_t bit = 1u << lane;
    switch (slot->sreg) {
    case PL_PTX_SREG_tid: return thread_id(w, lane, slot->dim);
    case PL_PTX_SREG_laneid: return lane;
    case PL_PTX_SREG_lanemask_eq: return bit;
    case PL_PTX_SREG_lanemask_lt: return bit - 1;
    case PL_PTX_SREG_lanemask_le: return bit | (bit - 1);
    case PL_PTX_SREG_lanemask_gt: return ~(bit | (bit - 1));
    case PL_PTX_SREG_lanemask_ge: return ~(bit - 1);
    default: return 0;
    }
}

static bool is_per_lane(const struct pl_emu_slot *s)
{
    return !s->is_shared &&
           (s->sreg == PL_PTX_SREG_tid || s->sreg == PL_PTX_SREG_laneid ||
            (s->sreg >= PL_PTX_SREG_lanemask_eq && s->sreg <= PL_PTX_SREG_lanemask_gt));
}

static uint64_t shared_address(const struct pl_emu_warp *w, const struct pl_emu_slot *s)
{
    uint32_t at = w->cta->cluster->grid->entry->shared_offsets[s->var];
    uint32_t address = (at + (uint32_t)s->addend) | w->cta->rank << PL_EMU_RANK_SHIFT;
    return s->is_generic ? PL_EMU_SHARED_WINDOW + address : address;
}

/* The same for every cluster that uses this storage: filled once. */
static bool is_fixed(const struct pl_emu_slot *s)
{
    return s->is_shared || (s->sreg != PL_PTX_SREG_ctaid && s->sreg != PL_PTX_SREG_clusterid &&
                            s->sreg != PL_PTX_SREG_smid);
}

static void fill_lanes(uint8_t *lanes, uint8_t bits, uint64_t v)
{
    switch (bits) {
    case 1: *(uint32_t *)(void *)lanes = v != 0 ? PL_EMU_ALL_LANES : 0; break;
    case 16:
        for (uint32_t i = 0; i < PL_EMU_LANES; i++)
            ((uint16_t *)(void *)lanes)[i] = (uint16_t)v;
        break;
    case 32:
        for (uint32_t i = 0; i < PL_EMU_LANES; i++)
            ((uint32_t *)(void *)lanes)[i] = (uint32_t)v;
        break;
    case 64:
        for (uint32_t i = 0; i < PL_EMU_LANES; i++)
            ((uint64_t *)(void *)lanes)[i] = v;
        break;
    default:
        for (uint32_t i = 0; i < PL_EMU_LANES; i++)
            ((struct pl_emu_u128 *)(void *)lanes)[i] = (struct pl_emu_u128){v, 0};
        break;
    }
}

static void fill_slot(struct pl_emu_warp *w, const struct pl_emu_slot *s)
{
    uint8_t *lanes = w->bank[PL_EMU_BANK_SREG] + s->offset_bytes;
    if (s->is_shared && w->cta->cluster->grid->entry->shared_offsets[s->var] == UINT32_MAX)
        return; /* a variable of another entry */
    if (!is_per_lane(s)) {
        fill_lanes(lanes, s->bits,
                   s->is_shared ? shared_address(w, s) : uniform_sreg(w, s->sreg, s->dim));
        return;
    }
    struct pl_emu_arg to = {.kind = PL_EMU_ARG_VALUE,
                            .bank = PL_EMU_BANK_SREG,
                            .bits = s->bits,
                            .offset_bytes = s->offset_bytes};
    for (uint32_t lane = 0; lane < PL_EMU_LANES; lane++)
        pl_emu_set_lane(w, &to, lane, lane_sreg(w, s, lane));
}

static bool start_warp(struct pl_emu_cta *cta, uint32_t index, uint8_t *sregs, uint8_t *local)
{
    struct pl_emu_warp *w = &cta->warps[index];
    const struct pl_emu_program *p = cta->cluster->grid->program;
    uint32_t n_left = cta->n_threads - index * PL_EMU_LANES;
    w->cta = cta;
    w->index = index;
    w->bank[PL_EMU_BANK_CONST] = p->consts;
    w->bank[PL_EMU_BANK_SREG] = sregs;
    w->local = local;
    const struct storage *s = cta->cluster->storage;
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (!s->is_filled || !is_fixed(&p->slots[i]))
            fill_slot(w, &p->slots[i]);
    return pl_emu_warp_start(w, cta->cluster->grid->entry,
                             n_left >= PL_EMU_LANES ? PL_EMU_ALL_LANES : (1u << n_left) - 1);
}

static bool start_cta(struct pl_emu_cluster *cl, uint32_t rank)
{
    struct storage *s = cl->storage;
    struct pl_emu_grid *g = cl->grid;
    struct pl_emu_cta *cta = &cl->ctas[rank];
    uint32_t in_cluster[3];
    split_index(rank, g->cluster, in_cluster);
    memset(cta, 0, sizeof *cta);
    cta->cluster = cl;
    cta->rank = rank;
    for (int k = 0; k < 3; k++)
        cta->id[k] = cl->id[k] * g->cluster[k] + in_cluster[k];
    cta->n_threads = cta->n_live = volume(g->block);
    cta->n_warps = s->n_warps;
    cta->warps = s->warps + (size_t)rank * s->n_warps;
    cta->shared.base_bytes = window_base(g);
    cta->shared.n_bytes = window_bytes(g);
    cta->shared.cap_bytes = (uint32_t)s->shared_stride_bytes;
    cta->shared.data = s->shared != NULL ? s->shared + rank * s->shared_stride_bytes : NULL;
    cta->shared.written = s->written != NULL ? s->written + rank * s->written_stride_words : NULL;
    if (cta->shared.written != NULL)
        memset(cta->shared.written, 0, s->written_stride_words * sizeof *s->written);
    if (g->entry->uses_reserved) { /* 0 at first: cooperative groups count on it */
        memset(cta->shared.data + reserved_begin(g), 0, PL_EMU_SHARED_RESERVED_BYTES);
        pl_emu_shared_mark(cta, reserved_begin(g), PL_EMU_SHARED_RESERVED_BYTES);
    }
    bool is_ok = true;
    for (uint32_t i = 0; i < s->n_warps && is_ok; i++) {
        size_t at = (size_t)rank * s->n_warps + i;
        uint8_t *local =
            s->local != NULL ? s->local + at * cl->local_stride_bytes * PL_EMU_LANES : NULL;
        is_ok = start_warp(cta, i, s->sregs + at * g->program->sreg_bytes, local);
    }
    return is_ok;
}

/* SplitMix64: a stream of its own for each cluster. */
static uint64_t seed_of(uint64_t seed, uint32_t index)
{
    uint64_t z = seed + (index + 1u) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

bool pl_emu_cluster_start(struct pl_emu_cluster *cl, uint32_t index, uint32_t sm)
{
    struct pl_emu_grid *g = cl->grid;
    uint32_t in_clusters[3];
    for (int k = 0; k < 3; k++)
        in_clusters[k] = g->grid[k] / g->cluster[k];
    pl_race_end(cl);
    if (cl->async != NULL)
        pl_emu_async_fini(cl);
    cl->async = NULL;
    cl->index = index;
    split_index(index, in_clusters, cl->id);
    cl->sm = sm;
    cl->n_live_ctas = cl->n_ctas;
    cl->n_steps = 0;
    cl->n_grace = 0;
    cl->rng = seed_of(g->device->config.seed, index);
    cl->round_start = 0;
    cl->straggler = NULL;
    cl->fault_warp = NULL;
    for (uint32_t i = 0; i < cl->n_ctas; i++)
        if (!start_cta(cl, i))
            return false;
    ((struct storage *)cl->storage)->is_filled = true;
    return pl_emu_async_init(cl) && (g->race == NULL || pl_race_start(cl));
}

/* ---- reports -------------------------------------------------------------------------------------------------------------------------------- */

struct report {
    char text[REPORT_BYTES];
    size_t n_bytes;
    uint32_t n_lines;
};

static void add_line(struct report *r, const char *line)
{
    int n = snprintf(r->text + r->n_bytes, sizeof r->text - r->n_bytes, "\n  %s", line);
    if (n > 0)
        r->n_bytes +=
            (size_t)n < sizeof r->text - r->n_bytes ? (size_t)n : sizeof r->text - 1 - r->n_bytes;
    r->n_lines++;
}

static void add_group(struct report *r, struct pl_emu_warp *w, struct pl_emu_group *g)
{
    char what[320] = "runs", line[512];
    if (g->state == PL_EMU_GROUP_BLOCKED) {
        snprintf(what, sizeof what, "waits");
        if (g->wait.describe != NULL)
            g->wait.describe(w, g, what, sizeof what);
    }
    const uint32_t *id = w->cta->id;
    snprintf(line, sizeof line, "CTA (%u,%u,%u) warp %u lanes 0x%08x line %u: %s", id[0], id[1],
             id[2], w->index, g->mask, g->pc->line, what);
    add_line(r, line);
}

/* Every group, and what waits at a join for others of its warp. */
static void list_groups(struct pl_emu_cluster *cl, struct report *r)
{
    for (uint32_t c = 0; c < cl->n_ctas; c++)
        for (uint32_t i = 0; !cl->ctas[c].is_done && i < cl->ctas[c].n_warps; i++) {
            struct pl_emu_warp *w = &cl->ctas[c].warps[i];
            for (uint32_t k = 0; w->live != 0 && k < PL_EMU_LANES; k++) {
                if (w->groups[k].state == PL_EMU_GROUP_FREE)
                    continue;
                if (r->n_lines == REPORT_LINES) {
                    add_line(r, "and others");
                    return;
                }
                add_group(r, w, &w->groups[k]);
            }
        }
}

static void raise_deadlock(struct pl_emu_cluster *cl)
{
    struct report *r = calloc(1, sizeof *r);
    char async[1024] = "";
    if (r != NULL) {
        list_groups(cl, r);
        pl_emu_async_describe(cl, async, sizeof async);
        if (async[0] != 0)
            add_line(r, async);
    }
    pl_d_emu_deadlock(cl->faults, (struct pl_where){0}, r != NULL ? r->text : "");
    free(r);
}

static void raise_livelock(struct pl_emu_cluster *cl)
{
    struct report *r = calloc(1, sizeof *r);
    if (r != NULL)
        list_groups(cl, r);
    pl_d_emu_livelock(cl->faults, (struct pl_where){0}, cl->n_steps, r != NULL ? r->text : "");
    free(r);
}

/* The line of a report without one of its own: that of the first group that waits. */
static void point_at_waiter(struct pl_emu_cluster *cl)
{
    for (uint32_t c = 0; c < cl->n_ctas && cl->fault_warp == NULL; c++)
        for (uint32_t i = 0; !cl->ctas[c].is_done && i < cl->ctas[c].n_warps; i++) {
            struct pl_emu_warp *w = &cl->ctas[c].warps[i];
            for (uint32_t k = 0; w->live != 0 && k < PL_EMU_LANES && cl->fault_warp == NULL; k++)
                if (w->groups[k].state != PL_EMU_GROUP_FREE) {
                    cl->fault_warp = w;
                    w->pc = w->groups[k].pc;
                    w->fault_lane = (uint32_t)__builtin_ctz(w->groups[k].mask);
                }
        }
    if (cl->fault_warp != NULL && cl->faults->list.n != 0)
        cl->faults->list.data[0].where.line = (int)cl->fault_warp->pc->line;
}

/* ---- the round robin --------------------------------------------------------------------------------------------------------------------------- */

static bool wake_timed(struct pl_emu_cluster *cl)
{
    bool is_any = false;
    for (uint32_t c = 0; c < cl->n_ctas; c++)
        for (uint32_t i = 0; !cl->ctas[c].is_done && i < cl->ctas[c].n_warps; i++) {
            struct pl_emu_warp *w = &cl->ctas[c].warps[i];
            for (uint32_t k = 0; w->live != 0 && k < PL_EMU_LANES; k++)
                if (w->groups[k].state == PL_EMU_GROUP_BLOCKED && w->groups[k].wait.is_timed) {
                    w->groups[k].wait.is_expired = true;
                    is_any = true;
                }
        }
    return is_any;
}

/* Lanes parked where their warp meets may hold what the others wait for. */
static bool let_go(struct pl_emu_cluster *cl)
{
    bool is_any = false;
    for (uint32_t c = 0; c < cl->n_ctas; c++)
        for (uint32_t i = 0; !cl->ctas[c].is_done && i < cl->ctas[c].n_warps; i++)
            if (cl->ctas[c].warps[i].live != 0 && pl_emu_warp_let_go(&cl->ctas[c].warps[i]))
                is_any = true;
    return is_any;
}

/* The i-th of n CTAs or warps to have its turn: in order under eager, backwards under late, from anywhere under random. So a
 * program that relies on one order (a missing barrier after an initialisation) shows. */
static uint32_t in_turn(struct pl_emu_cluster *cl, uint32_t i, uint32_t n)
{
    switch (cl->grid->device->config.policy) {
    case PL_EMU_ASYNC_EAGER: break;
    case PL_EMU_ASYNC_LATE: return n - 1 - i;
    case PL_EMU_ASYNC_RANDOM: return (uint32_t)((i + cl->round_start) % n);
    }
    return i;
}

/* Random: now and then one warp is held up while all others go on, so that what must wait for it and does not shows (an
 * arrival before all have read, a barrier left out): turns that begin anywhere keep neighbours in order. */
static void choose_straggler(struct pl_emu_cluster *cl)
{
    if (cl->grid->device->config.policy != PL_EMU_ASYNC_RANDOM)
        return;
    if (cl->straggler != NULL && cl->n_straggler_rounds-- > 0)
        return;
    uint64_t r = cl->round_start >> 16;
    struct pl_emu_cta *cta = &cl->ctas[r / 4 % cl->n_ctas];
    cl->straggler = r % 4 != 0 && !cta->is_done ? &cta->warps[(r >> 16) % cta->n_warps] : NULL;
    cl->n_straggler_rounds = (uint32_t)((r >> 32) % MAX_STRAGGLE);
}

/* One turn for every warp of a CTA. */
static enum pl_emu_turn run_cta(struct pl_emu_cta *cta)
{
    enum pl_emu_turn all = PL_EMU_TURN_IDLE;
    for (uint32_t k = 0; k < cta->n_warps; k++) {
        uint32_t i = in_turn(cta->cluster, k, cta->n_warps);
        if (cta->warps[i].live == 0 || &cta->warps[i] == cta->cluster->straggler)
            continue;
        enum pl_emu_turn t = pl_emu_warp_turn(&cta->warps[i], SLICE);
        if (t == PL_EMU_TURN_FAULT)
            return t;
        if (t == PL_EMU_TURN_RAN)
            all = t;
    }
    return all;
}

/* One turn for every warp of the cluster. */
static enum pl_emu_turn run_round(struct pl_emu_cluster *cl)
{
    enum pl_emu_turn all = PL_EMU_TURN_IDLE;
    cl->round_start = cl->round_start * UINT64_C(6364136223846793005) + (cl->rng | 1);
    choose_straggler(cl);
    for (uint32_t k = 0; k < cl->n_ctas; k++) {
        struct pl_emu_cta *cta = &cl->ctas[in_turn(cl, k, cl->n_ctas)];
        if (cta->is_done)
            continue;
        enum pl_emu_turn t = run_cta(cta);
        if (t == PL_EMU_TURN_FAULT)
            return t;
        if (t == PL_EMU_TURN_RAN)
            all = t;
        if (cta->n_live != 0)
            continue;
        enum pl_emu_status s = pl_emu_async_on_cta_exit(cta);
        if (s == PL_EMU_FAULT)
            return PL_EMU_TURN_FAULT;
        if (s == PL_EMU_BLOCKED)
            continue;
        cta->is_done = true;
        cl->n_live_ctas--;
        all = PL_EMU_TURN_RAN;
    }
    if (pl_emu_async_step(cl) == PL_EMU_FAULT)
        return PL_EMU_TURN_FAULT;
    return all;
}

/* All but the straggler sleep: it comes back, now or after something in flight has completed. */
static enum pl_emu_status end_straggling(struct pl_emu_cluster *cl)
{
    const bool is_now = (cl->round_start >> 40) % 2 == 0;
    enum pl_emu_status s = is_now ? PL_EMU_BLOCKED : pl_emu_async_force(cl);
    if (s == PL_EMU_BLOCKED)
        cl->straggler = NULL;
    return s;
}

/* All groups sleep: something in flight completes, parked lanes go on, a timed wait ends, or that is it. */
static enum pl_emu_run unblock(struct pl_emu_cluster *cl)
{
    enum pl_emu_status s = pl_emu_async_force(cl);
    if (s == PL_EMU_FAULT)
        return PL_EMU_RUN_FAULT;
    if (s == PL_EMU_NEXT || let_go(cl) || wake_timed(cl))
        return PL_EMU_RUN_SUSPENDED;
    raise_deadlock(cl);
    point_at_waiter(cl);
    return PL_EMU_RUN_FAULT;
}

enum pl_emu_run pl_emu_cluster_run(struct pl_emu_cluster *cl, uint64_t n_steps)
{
    uint64_t limit = cl->grid->device->config.step_limit, end = cl->n_steps + n_steps;
    while (cl->n_live_ctas != 0) {
        enum pl_emu_turn t = run_round(cl);
        if (t == PL_EMU_TURN_FAULT)
            return PL_EMU_RUN_FAULT;
        if (t == PL_EMU_TURN_IDLE && cl->straggler != NULL) {
            if (end_straggling(cl) == PL_EMU_FAULT)
                return PL_EMU_RUN_FAULT;
        } else if (t == PL_EMU_TURN_IDLE && unblock(cl) == PL_EMU_RUN_FAULT)
            return PL_EMU_RUN_FAULT;
        if (limit != 0 && cl->n_steps > limit) {
            raise_livelock(cl);
            point_at_waiter(cl);
            return PL_EMU_RUN_FAULT;
        }
        if (cl->n_steps >= end && cl->n_live_ctas != 0)
            return PL_EMU_RUN_SUSPENDED;
    }
    return PL_EMU_RUN_DONE;
}
