/*
 * The functions of emu/api/refused.def: exported by name, and refused by name. They take no parameter, since none is looked at;
 * a caller that passes some loses nothing under the calling conventions of the hosts that we build for.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/diag.h"
#include "emu/api/work.h"

#define EXPORT __attribute__((visibility("default")))

static CUresult refuse(const char *symbol, const char *why)
{
    struct pl_say say;
    char text[300];
    pl_say_init(&say);
    pl_d_api_refused(&say.diags, (struct pl_where){0}, symbol, why);
    pl_say_finish(&say, text, sizeof text);
    pl_lock();
    pl_process_note(text);
    pl_unlock();
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define REFUSED(symbol, why)                                                                       \
    EXPORT CUresult symbol(void);                                                                  \
    EXPORT CUresult symbol(void) { return refuse(#symbol, why); }
#include "emu/api/refused.def"
#undef REFUSED
