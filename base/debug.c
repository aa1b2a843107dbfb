#include "base/debug.h"

#ifdef PL_DEBUG
#include <stdio.h>
#include <stdlib.h>

/* Debug builds only: an assertion is our bug, and the test or fuzzer must stop at it. */
_Noreturn void pl_assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
#else
typedef int pl_debug_is_off;
#endif
