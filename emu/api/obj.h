#ifndef PL_EMU_API_OBJ_H
#define PL_EMU_API_OBJ_H
/*
 * Handles of the Driver API: numbers that look like pointers and are never followed. Each names a slot of one table and the
 * generation of its occupant, so that a garbage or stale handle is found to be one, whatever its bits.
 *
 * Threads: under the API lock (emu/api/state.h).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pl_obj_kind {
    PL_OBJ_NONE,
    PL_OBJ_CONTEXT,
    PL_OBJ_STREAM,
    PL_OBJ_EVENT,
    PL_OBJ_MODULE,
    PL_OBJ_FUNCTION,
    PL_OBJ_LIBRARY,
    PL_OBJ_KERNEL,
    PL_OBJ_GRAPH,
    PL_OBJ_NODE,
    PL_OBJ_EXEC,
    PL_OBJ_POOL,
    PL_OBJ_LINK,
    PL_OBJ_PHYSICAL,
    PL_OBJ_KIND_COUNT
};

/* The first member of everything that has a handle. {0}: not in the table. */
struct pl_obj {
    uint8_t kind; /* enum pl_obj_kind */
    uint16_t generation;
    uint32_t index;
};

bool pl_obj_add(struct pl_obj *o,
                enum pl_obj_kind kind); /* false: no memory, or 2^20 handles live */
void pl_obj_remove(struct pl_obj *o);

/* The object of a handle, or NULL when there is none of this kind. */
void *pl_obj_find(const void *handle, enum pl_obj_kind kind);
void *pl_obj_handle(const struct pl_obj *o);

/* Objects of one kind alive, and in all: what a test of leaks asks for. */
uint32_t pl_obj_count(enum pl_obj_kind kind);
/* The next object of this kind at or after slot *i, or NULL; *i moves past it. */
void *pl_obj_next(uint32_t *i, enum pl_obj_kind kind);
#endif
