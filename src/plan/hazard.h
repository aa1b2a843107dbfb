#ifndef PL_SRC_PLAN_HAZARD_H
#define PL_SRC_PLAN_HAZARD_H
/* The hazards of memory inside a unit. */
#include "src/plan/lower.h"

/* What a unit's threads did to an SMEM array since the unit's last barrier. */
struct pl_hazard {
    uint8_t has_reads, has_writes; /* by plain loads and stores */
    uint8_t has_products;          /* its reads are of products that nobody has waited for */
    uint8_t has_late_products;    /* ... or that a wait for some of them may have left unfinished */
    uint32_t read_key, write_key; /* the one access pattern, or 0 when several */
};

/* What the threads of a unit have left at a place of the program, by all ways to it. */
struct pl_hazard_state {
    struct pl_hazard *arrays;
    struct pl_tmem_state tmem;
    bool has_waits, scratch_is_read, cta_scratch_is_read;
    bool has_no_wgmma, has_values_in_flight, has_pending_out, has_products;
};

void pl_hazard_access(struct pl_lower *l, uint32_t ref, bool is_write, uint32_t key);
void pl_hazard_global(struct pl_lower *l, uint32_t ref, bool is_write, const struct pl_lay *lay);
/* A rank-0 access of GMEM: every thread loads, the leader stores. */
void pl_hazard_element(struct pl_lower *l, uint32_t ref, bool is_write);
void pl_hazard_async(struct pl_lower *l, uint32_t array, bool is_write);
void pl_hazard_arrival(struct pl_lower *l); /* the leader is going to arrive at a barrier alone */
/* A product reads it, until somebody waits for products. */
void pl_hazard_product(struct pl_lower *l, uint32_t ref);
void pl_hazard_products_end(struct pl_lower *l, bool is_all);
void pl_hazard_loop(struct pl_lower *l, uint32_t region_op);
void pl_hazard_clear(struct pl_lower *l);
struct pl_hazard_state *pl_hazard_save(struct pl_lower *l);
void pl_hazard_restore(struct pl_lower *l, const struct pl_hazard_state *s);
void pl_hazard_merge(struct pl_lower *l, const struct pl_hazard_state *s);
/* The state now to a saved one; NULL: none yet. */
void pl_hazard_add(struct pl_lower *l, struct pl_hazard_state **to);
#endif
