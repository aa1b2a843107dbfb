#ifndef PL_EMU_API_EVENT_H
#define PL_EMU_API_EVENT_H
/* Events: the mark of the op that recorded them, or a place in a capture. Threads: under the API lock. */
#include "emu/api/work.h"

struct pl_event {
    struct pl_obj obj;
    struct pl_context *ctx;
    unsigned flags;
    struct pl_mark *mark;  /* NULL: never recorded */
    uint64_t capture_id;   /* recorded last in this capture; 0: in none */
    struct pl_node **tips; /* the nodes it stands for there */
    uint32_t n_tips;
};

void pl_event_drop_context(struct pl_context *ctx);
#endif
