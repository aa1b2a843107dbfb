#ifndef PL_RUNTIME_REPORT_H
#define PL_RUNTIME_REPORT_H
/* The caller's list of diagnostics (pl_report): a copy of each, so that it outlives the build that raised them. */
#include <plaunch/core.h>

#include "base/diag.h"

/* Copies texts and files; when memory is short the diagnostic is dropped (the pl_error still has the first). */
void pl_report_add(pl_report *r, const struct pl_diag *d);

#endif
