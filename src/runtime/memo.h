#ifndef PL_RUNTIME_MEMO_H
#define PL_RUNTIME_MEMO_H
/*
 * The last launches of a thread, whole: arguments and options as they came, and what the driver was given. A launch that is
 * equal in all of it (a decode step over the same buffers) needs no checks, no configuration, no key and no packing again:
 * the kernel's functions are pure, so their answers are the same. Compared value by value; nothing is trusted by address but
 * the kernel, which lives as long as the context.
 */
#include <plaunch/launch.h>

struct pl_entry;
struct pl_variant;

enum {
    PL_PARAM_BLOCK_BYTES = 4096,
    PL_MEMO_LINES = 8,
    PL_MEMO_ARGS = 8,
    PL_MEMO_OPTION_BYTES = 64
};

/* The parameter block and the grid of one launch. */
struct pl_packed {
    uint32_t grid[3];
    _Alignas(128) unsigned char block[PL_PARAM_BLOCK_BYTES];
};

/* Who launches, and all that goes in. */
struct pl_memo_key {
    uint64_t
        owner; /* the kernel's address, or the odd serial number of a prepared variant; 0: empty */
    const pl_arg *args; /* may be NULL: such a call is never remembered */
    size_t n_args;
    const pl_launch_options *options; /* NULL: none */
};

struct pl_memo {
    uint64_t owner;
    struct pl_entry *entry; /* NULL for a prepared variant, which stays */
    struct pl_variant *variant;
    size_t n_args, n_option_bytes;
    bool is_pdl;
    uint32_t flags;
    int32_t config;
    uint64_t workspace;
    const void
        *kernel_options; /* their bytes are compared, the address says whether there were any */
    pl_arg args[PL_MEMO_ARGS];
    unsigned char option_bytes[PL_MEMO_OPTION_BYTES];
    struct pl_packed packed;
};

/* The line where a launch like this would be remembered. */
struct pl_memo *pl_memo_line_of(struct pl_memo lines[PL_MEMO_LINES], const struct pl_memo_key *key);

bool pl_memo_matches(const struct pl_memo *m, const struct pl_memo_key *key);

/* Remember what was packed in m->packed. Does nothing for what a line cannot hold. kernel_option_bytes: of options->params */
void pl_memo_fill(struct pl_memo *m, const struct pl_memo_key *key, size_t kernel_option_bytes);

#endif
