/*
 * The exported functions: each row of emu/api.def wrapped in the checks that all share, and the table of them by name.
 */
#include "emu/api/state.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define WRAP(id, exported, is_per_thread, params, args)                                            \
    EXPORT CUresult exported params;                                                               \
    EXPORT CUresult exported params                                                                \
    {                                                                                              \
        CUresult r = pl_api_enter(PL_API_##id, is_per_thread);                                     \
        if (r != CUDA_SUCCESS)                                                                     \
            return r;                                                                              \
        r = pl_##id args;                                                                          \
        pl_api_leave(PL_API_##id);                                                                 \
        return r;                                                                                  \
    }
#define WRAP_PLAIN(symbol, params, args)
#define WRAP_PTSZ(symbol, params, args) WRAP(symbol, symbol##_ptsz, true, params, args)
#define WRAP_PTDS(symbol, params, args) WRAP(symbol, symbol##_ptds, true, params, args)
#define CU(name, version, symbol, need, capture, variant, params, args)                            \
    WRAP(symbol, symbol, false, params, args)                                                      \
    WRAP_##variant(symbol, params, args)
#include "emu/api.def"
#undef CU

/* ISO C has no conversion from a function to an object pointer; POSIX has, as dlsym needs it. */
#define ADDRESS(f)            __extension__(void *) f
#define ADDRESS_PLAIN(symbol) NULL
#define ADDRESS_PTSZ(symbol)  ADDRESS(symbol##_ptsz)
#define ADDRESS_PTDS(symbol)  ADDRESS(symbol##_ptds)

const struct pl_api_info pl_api_infos[PL_API_COUNT] = {
#define CU(name, version, symbol, need, capture, variant, params, args)                            \
    [PL_API_##symbol] = {#name,                                                                    \
                         #symbol,                                                                  \
                         version,                                                                  \
                         PL_NEED_##need,                                                           \
                         PL_CAPTURE_##capture,                                                     \
                         PL_VARIANT_##variant,                                                     \
                         ADDRESS(symbol),                                                          \
                         ADDRESS_##variant(symbol)},
#include "emu/api.def"
#undef CU
};

/*
 * The newest form of `name` not newer than `version` nor than the driver. *is_known: there is one at all.
 * Driver API reference, Driver Entry Point Access: cuGetProcAddress.
 */
static const struct pl_api_info *find_entry(const char *name, int version, bool *is_known)
{
    const struct pl_api_info *best = NULL;
    int limit = pl_process.settings.driver_version;
    if (version < limit)
        limit = version;
    *is_known = false;
    for (size_t i = 0; i < PL_API_COUNT; i++) {
        const struct pl_api_info *f = &pl_api_infos[i];
        if (strcmp(f->name, name) != 0)
            continue;
        *is_known = true;
        if (f->version <= limit && (best == NULL || f->version > best->version))
            best = f;
    }
    return best;
}

CUresult pl_cuGetProcAddress_v2(const char *symbol, void **fn, int version, cuuint64_t flags,
                                CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t both =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (symbol == NULL || fn == NULL || (flags & ~both) != 0 || flags == both || version < 2000)
        return CUDA_ERROR_INVALID_VALUE;
    *fn = NULL;
    if (status != NULL)
        *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (version > pl_process.settings.driver_version)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_known;
    const struct pl_api_info *f = find_entry(symbol, version, &is_known);
    if (f == NULL) {
        if (is_known && status != NULL)
            *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        return status != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    }
    bool wants_per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *fn = wants_per_thread && f->per_thread_function != NULL ? f->per_thread_function : f->function;
    if (status != NULL)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult pl_cuGetProcAddress(const char *symbol, void **fn, int version, cuuint64_t flags)
{
    return pl_cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}

CUresult pl_cuGetExportTable(const void **table, const CUuuid *id)
{
    if (table == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL; /* private tables of NVIDIA's own runtime: there are none here */
    return CUDA_ERROR_NOT_FOUND;
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ERROR(name, value, text) {CUDA_##name, "CUDA_" #name, text},
#include "emu/error.def"
#undef ERROR
};

CUresult pl_cuGetErrorName(CUresult error, const char **text)
{
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == error)
            return *text = errors[i].name, CUDA_SUCCESS;
    return *text = NULL, CUDA_ERROR_INVALID_VALUE;
}

CUresult pl_cuGetErrorString(CUresult error, const char **text)
{
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == error)
            return *text = errors[i].text, CUDA_SUCCESS;
    return *text = NULL, CUDA_ERROR_INVALID_VALUE;
}
