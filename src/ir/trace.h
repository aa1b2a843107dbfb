#ifndef PL_SRC_IR_TRACE_H
#define PL_SRC_IR_TRACE_H
/*
 * The builder's inside: shared by the trace_*.c files, one for each family of public functions. Every helper is silent on poison
 * (id 0) and gives poison when it reported something or memory ran out.
 */
#include "src/ir/ir.h"

#define PL_DIAG_ROWS "src/ir/trace.def"
#define PL_DIAG_MODE_DECLARE
#include "base/diag_rows.h"

/* What happens when an open block ends, beyond closing it. */
enum pl_open_kind {
    PL_OPEN_PLAIN,
    PL_OPEN_IF,
    PL_OPEN_PRODUCE,
    PL_OPEN_CONSUME,
    PL_OPEN_PIPELINE,
    PL_OPEN_TILES
};

struct pl_open {
    enum pl_open_kind kind;
    uint32_t block;
    uint32_t outer; /* index of the open block around it */
    bool is_closed;
    bool was_left;  /* closed by the end of a block around it */
    bool has_break; /* LOOP: a pl_break_if was traced for it */
    uint32_t pipe;
    pl_val slot, step, n_steps;
    pl_bar full; /* PRODUCE, PIPELINE: of the slot; PIPELINE: the group in `group` */
    pl_bar group;
    pl_ref slot_var;  /* TILES: the tile */
    uint32_t queue;   /* TILES: of which schedule */
    int32_t n_copies; /* arrivals by copies traced in this block */
    pl_pipeline_desc pipeline;
    pl_loc loc;
};

/* A dynamic schedule (trace_sched.c). */
struct pl_queue {
    pl_bar full, empty;
    pl_ref answer;     /* 16 bytes of SMEM */
    uint64_t walkers;  /* roles that walk its tiles; bit 0: code outside roles */
    int32_t n_walkers; /* units: outside roles each warpgroup is one */
    pl_loc loc;
};

struct pl_builder {
    struct pl_fn *fn;
    uint32_t block;                 /* innermost open block */
    uint32_t open;                  /* its entry in opens; 0: only the body */
    PL_VEC(struct pl_open) opens;   /* [0] unused */
    PL_VEC(struct pl_queue) queues; /* [0] unused */
    uint32_t
        last_if; /* IF op whose then-block was the last thing closed in `block`; 0 after any other call */
    pl_dtype index_dtype;
    bool has_ops; /* an op was traced: block shape can no longer change */
    bool has_warpgroups, has_cluster;
};

bool pl_builder_init(struct pl_builder *b, struct pl_fn *fn); /* false when memory ran out */
void pl_builder_finish(struct pl_builder *b); /* reports open blocks, computes levels */

struct pl_where pl_trace_at(pl_loc l);
/* Text of a shape, "64x64", "()" or "?x64", in the trace's arena. */
const char *pl_trace_shape(pl_builder *b, const pl_shape *s);
const char *pl_trace_block_name(enum pl_block_kind kind);

/* Reports a handle that nothing made, unless an error before explains it. */
void pl_trace_empty(pl_builder *b, const char *what, pl_loc l);
/* The op's id if v is usable here (in scope, not poison), else 0 with a diagnostic when it is out of scope. */
uint32_t pl_trace_use(pl_builder *b, pl_val v, pl_loc l);
uint32_t pl_trace_use_ref(pl_builder *b, pl_ref r, pl_loc l);
/* `needs_one`: a group of several is refused. */
uint32_t pl_trace_use_bar(pl_builder *b, pl_bar bar, bool needs_one, pl_loc l);

/* A new op at the end of the current block, its id in *id; NULL when memory ran out. */
struct pl_op *pl_trace_add(pl_builder *b, enum pl_opcode code, pl_loc l, uint32_t *id);
/* Adds a value op with the given result type. */
struct pl_op *pl_trace_add_val(pl_builder *b, enum pl_opcode code, pl_dtype t, const pl_shape *s,
                               pl_loc l, uint32_t *id);

/* Weak literal -> constant of dtype t (a diagnostic when it does not fit); anything else unchanged. */
uint32_t pl_trace_strong(pl_builder *b, const char *what, uint32_t id, pl_dtype t, pl_loc l);
uint32_t pl_trace_strong_default(pl_builder *b, uint32_t id, pl_loc l);
uint32_t pl_trace_const_i(pl_builder *b, pl_dtype t, int64_t v, pl_loc l);
/* A rank-0 integer (strong), a rank-0 pred. */
uint32_t pl_trace_integer(pl_builder *b, const char *what, pl_val v, pl_loc l);
uint32_t pl_trace_pred(pl_builder *b, const char *what, pl_val v, pl_loc l);
bool pl_trace_axis(pl_builder *b, const char *what, int32_t axis, int32_t rank, pl_loc l);
/* Static, positive, not too large. */
bool pl_trace_extents(pl_builder *b, const char *what, const pl_shape *s, pl_loc l);
bool pl_trace_static(pl_builder *b, const char *what, uint32_t ref, pl_loc l);
/* False, with a diagnostic, for a constant index that is not one of 0 .. n - 1. */
bool pl_trace_inside(pl_builder *b, const char *what, int axis, uint32_t index, int64_t n,
                     pl_loc l);
/* A kind of the enum, vec 0 or a power of two up to 16. */
bool pl_trace_layout(pl_builder *b, const pl_layout *layout, pl_loc l);
/* Allocation place: only in the body block. */
bool pl_trace_is_top(pl_builder *b, const char *what, pl_loc l);

/* Public handles of ids. */
static inline pl_val pl_trace_val(uint32_t id) { return (pl_val){id}; }
static inline pl_ref pl_trace_ref(uint32_t id) { return (pl_ref){id}; }

void pl_trace_params(
    pl_builder *b); /* makes the refs of all tensor parameters, at the start of a trace */

/* Raw constructors, used by the public functions and by the reader of the text form. */
uint32_t pl_trace_array(pl_builder *b, const struct pl_array *array, uint32_t init,
                        pl_loc l);                                                  /* ref */
uint32_t pl_trace_view(pl_builder *b, const struct pl_ref_info *want, pl_loc l);    /* ref */
uint32_t pl_trace_group(pl_builder *b, const struct pl_bar_group *group, pl_loc l); /* bar */
uint32_t pl_trace_open(pl_builder *b, enum pl_open_kind kind, enum pl_block_kind block_kind,
                       uint32_t owner, int which, pl_loc l); /* block */

/* May another block be opened here? A diagnostic when not; ask before the region op is added. */
enum { PL_MAX_BLOCK_DEPTH = 60 };
bool pl_trace_can_open(pl_builder *b, pl_loc l);

/* What a begin function gives back: block (0: could not be opened) and its value (0: none). */
pl_block pl_trace_handle(pl_builder *b, uint32_t block, uint32_t iv);

/* The end of PL_PRODUCE, PL_CONSUME, PL_PIPELINE blocks (trace_sync.c), of PL_TILES blocks of a dynamic schedule (trace_sched.c). */
void pl_trace_end_produce(pl_builder *b, struct pl_open *o);
void pl_trace_end_consume(pl_builder *b, struct pl_open *o);
void pl_trace_end_pipeline(pl_builder *b, struct pl_open *o);
void pl_trace_end_tiles(pl_builder *b, struct pl_open *o);
/* Notes an arrival by copy on a barrier. */
void pl_trace_copy_arrives(pl_builder *b, uint32_t bar, uint32_t mask, pl_loc l);
#endif
