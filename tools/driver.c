#include "tools/driver.h"

#include "base/os.h"

#include <plaunch.h>

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
    bool is_optional;
} symbols[] = {
    {"cuInit", offsetof(struct pl_tool_driver, init), false},
    {"cuDeviceGet", offsetof(struct pl_tool_driver, device_get), false},
    {"cuDevicePrimaryCtxRetain", offsetof(struct pl_tool_driver, ctx_retain), false},
    {"cuCtxSetCurrent", offsetof(struct pl_tool_driver, ctx_set), false},
    {"cuModuleLoadData", offsetof(struct pl_tool_driver, load), false},
    {"cuModuleGetFunction", offsetof(struct pl_tool_driver, get_function), false},
    {"cuMemAlloc_v2", offsetof(struct pl_tool_driver, mem_alloc), false},
    {"cuMemcpyHtoD_v2", offsetof(struct pl_tool_driver, to_device), false},
    {"cuMemcpyDtoH_v2", offsetof(struct pl_tool_driver, to_host), false},
    {"cuLaunchKernelEx", offsetof(struct pl_tool_driver, launch_ex), false},
    {"cuFuncSetAttribute", offsetof(struct pl_tool_driver, set_attribute), false},
    {"cuCtxSynchronize", offsetof(struct pl_tool_driver, synchronize), false},
    {"cuGetErrorName", offsetof(struct pl_tool_driver, error_name), false},
    {"cuTensorMapEncodeTiled", offsetof(struct pl_tool_driver, encode), false},
    {"cuTensorMapEncodeIm2colWide", offsetof(struct pl_tool_driver, encode_wide), true},
    {"cuFuncGetParamInfo", offsetof(struct pl_tool_driver, param_info), true},
    {"plaunch_emu_last_fault", offsetof(struct pl_tool_driver, last_fault), true},
    {"plaunch_emu_query", offsetof(struct pl_tool_driver, emu_query), true},
    {"plaunch_emu_configure", offsetof(struct pl_tool_driver, emu_configure), true},
};

bool pl_tool_driver_load(struct pl_tool_driver *out, const char *driver, char *why,
                         size_t why_bytes)
{
    pl_context *ctx = NULL;
    pl_error err = {0};
    const pl_context_options options = {
        .struct_size = sizeof options, .driver = driver, .cache_dir = ""};
    if (pl_context_create(&ctx, &options, &err) != PL_OK) {
        snprintf(why, why_bytes, "%s", err.text);
        return false;
    }
    const pl_context_facts facts =
        pl_context_info(ctx); /* which file it is; opening it again gives the same library */
    pl_context_destroy(ctx);
    void *lib = pl_os_lib_open(facts.driver_path, why, why_bytes);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *p = lib == NULL ? NULL : pl_os_lib_sym(lib, symbols[i].name);
        if (p == NULL && !symbols[i].is_optional) {
            if (lib != NULL)
                snprintf(why, why_bytes, "%s has no %s", facts.driver_path, symbols[i].name);
            return false;
        }
        memcpy((char *)out + symbols[i].offset, &p, sizeof p);
    }
    return true;
}
