#ifndef PL_SRC_CHECK_WHERE_H
#define PL_SRC_CHECK_WHERE_H
/* The place that a violation of a trace is reported at. */
#include "src/ir/ir.h"

static inline struct pl_where at(pl_loc l)
{
    return (struct pl_where){.file = l.file, .line = l.line};
}

static inline struct pl_where at_values(pl_loc l, int64_t seen, int64_t wanted)
{
    return (struct pl_where){
        .file = l.file, .line = l.line, .has_values = true, .seen = seen, .wanted = wanted};
}
#endif
