#ifndef PL_BASE_DEBUG_H
#define PL_BASE_DEBUG_H
/* PL_ASSERT: our own bug; on with --enable-debug, off in release. Never on user input, file contents or driver answers. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef PL_DEBUG
_Noreturn void pl_assert_failed(const char *what, const char *file, int line);
#define PL_ASSERT(c) ((c) ? (void)0 : pl_assert_failed(#c, __FILE__, __LINE__))
#else
#define PL_ASSERT(c) ((void)sizeof(c))
#endif
#define PL_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#endif
