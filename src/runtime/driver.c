#include "src/runtime/driver.h"

#include "base/debug.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

/* How far a library got; only the first two of these let "auto" fall back. */
enum outcome { STARTED, CANNOT_OPEN, NO_DEVICE, FAILED };

enum need { REQUIRED, OPTIONAL };

struct symbol {
    const char *name;
    size_t offset; /* of the field in struct pl_cuda */
    enum need need;
    int first; /* driver version */
};

static const struct symbol symbols[] = {
#define CUDA(name, symbol, need, first, parameters, plausible)                                     \
    {#symbol, offsetof(struct pl_cuda, name), need, first},
#include "src/runtime/cuda.def"
#undef CUDA
};

static const char real_driver[] = "libcuda.so.1";

/* The first required function that the library lacks, or NULL. */
static const struct symbol *find_symbols(struct pl_cuda *cu, void *lib)
{
    for (size_t i = 0; i < PL_COUNT(symbols); i++) {
        void *f = pl_os_lib_sym(lib, symbols[i].name);
        if (f == NULL && symbols[i].need == REQUIRED)
            return &symbols[i];
        memcpy((char *)cu + symbols[i].offset, &f, sizeof f);
    }
    return NULL;
}

/*
 * A library may export functions of later versions than the one that it says it is, and refuse their calls: those count as not there.
 * The first required one, or NULL.
 */
static const struct symbol *forget_later(struct pl_cuda *cu, int version)
{
    void *const absent = NULL;
    for (size_t i = 0; i < PL_COUNT(symbols); i++) {
        if (symbols[i].first <= version)
            continue;
        if (symbols[i].need == REQUIRED)
            return &symbols[i];
        memcpy((char *)cu + symbols[i].offset, &absent, sizeof absent);
    }
    return NULL;
}

static enum outcome fail_symbol(const char *path, const struct symbol *absent, struct pl_call *call)
{
    (void)pl_e_driver_symbol(call, PL_E_DRIVER, (struct pl_where){0}, path, absent->name,
                             absent->first / 1000, absent->first % 1000 / 10);
    return FAILED;
}

void pl_driver_fault_text(const struct pl_driver *d, char *out, size_t n_bytes)
{
    out[0] = '\0';
    const size_t whole = d->last_fault != NULL ? d->last_fault(out, n_bytes) : 0;
    char *end = whole >= n_bytes ? strrchr(out, '\n') : NULL;
    if (end != NULL)
        *end = '\0';
    for (size_t n = strlen(out); n > 0 && out[n - 1] == '\n'; n--)
        out[n - 1] = '\0';
}

/* A driver of CUDA says no more than its code; the emulated one keeps the reason as text. */
static pl_status fail_start(struct pl_driver *d, const char *function, int r, struct pl_call *call)
{
    char what[256], why[160];
    pl_driver_fault_text(d, why, sizeof why);
    snprintf(what, sizeof what, "%s%s%s", pl_driver_error_name(d, r), why[0] != '\0' ? ": " : "",
             why);
    call->driver_code = r;
    return pl_e_driver_init(call, PL_E_DRIVER, (struct pl_where){0}, d->path, function, r, what);
}

static pl_status fail_no_device(struct pl_driver *d, struct pl_call *call)
{
    d->last_fault = NULL; /* what it says is of another call */
    return fail_start(d, "cuInit", PL_CU_NO_DEVICE, call);
}

/*
 * Open one library and start it. CANNOT_OPEN and NO_DEVICE leave the reason in `why` and no error in the call; FAILED has
 * filled the error.
 */
static enum outcome start(struct pl_driver *d, const char *path, char *why, size_t why_bytes,
                          struct pl_call *call)
{
    void *lib = pl_os_lib_open(path, why, why_bytes);
    if (lib == NULL)
        return CANNOT_OPEN;
    snprintf(d->path, sizeof d->path, "%s", path);
    const struct symbol *absent = find_symbols(&d->cu, lib);
    if (absent != NULL) {
        pl_os_lib_close(lib);
        return fail_symbol(path, absent, call);
    }
    d->is_emulated = pl_os_lib_sym(lib, "plaunch_emu_version") != NULL;
    void *last_fault = pl_os_lib_sym(lib, "plaunch_emu_last_fault");
    memcpy(&d->last_fault, &last_fault, sizeof last_fault);
    pl_cu_result r = d->cu.Init(0);
    if (r == PL_CU_NO_DEVICE) {
        snprintf(why, why_bytes, "%s reports no device", path);
        return NO_DEVICE;
    }
    if (r != PL_CU_SUCCESS)
        return (void)fail_start(d, "cuInit", r, call), FAILED;
    r = d->cu.DeviceGetCount(&d->n_devices);
    if (r == PL_CU_NO_DEVICE || (r == PL_CU_SUCCESS && d->n_devices == 0)) {
        snprintf(why, why_bytes, "%s reports no device", path);
        return NO_DEVICE;
    }
    if (r != PL_CU_SUCCESS)
        return (void)fail_start(d, "cuDeviceGetCount", r, call), FAILED;
    r = d->cu.DriverGetVersion(&d->version);
    if (r != PL_CU_SUCCESS)
        return (void)fail_start(d, "cuDriverGetVersion", r, call), FAILED;
    absent = forget_later(&d->cu, d->version);
    return absent == NULL ? STARTED : fail_symbol(path, absent, call);
}

/* A driver that was named, not searched for: anything short of STARTED is an error. */
static pl_status start_named(struct pl_driver *d, const char *path, struct pl_call *call)
{
    char why[256] = "";
    switch (start(d, path, why, sizeof why, call)) {
    case STARTED: return PL_OK;
    case FAILED: return PL_E_DRIVER;
    case NO_DEVICE: return fail_no_device(d, call);
    case CANNOT_OPEN: break;
    }
    return pl_e_driver_not_found(call, PL_E_DRIVER, (struct pl_where){0}, path, why);
}

/* The folders where the emulated driver may lie; false when there is no i-th. */
static bool emulator_candidate(unsigned i, char *path, size_t n_bytes)
{
    static const char file[] = "libplaunch-emu.so";
    char self[200] = "";
    bool has_self = pl_os_folder_of((const void *)real_driver, self, sizeof self);
    size_t n = strlen(self);
    bool is_build_tree = n >= 6 && strcmp(self + n - 6, "/.libs") == 0;
    const char *env = pl_os_getenv("PLAUNCH_DRIVER");
    path[0] = '\0';
    switch (i) {
    case 0:
        if (env != NULL && strchr(env, '/') != NULL)
            snprintf(path, n_bytes, "%s", env);
        return true;
    case 1:
        if (has_self)
            snprintf(path, n_bytes, "%s/%s", self, file);
        return true;
    case 2:
        if (is_build_tree)
            snprintf(path, n_bytes, "%.*s/emu/.libs/%s", (int)(n - 6), self, file);
        return true;
    case 3: snprintf(path, n_bytes, "%s/%s", PL_LIBDIR, file); return true;
    default: return false;
    }
}

static pl_status start_emulator(struct pl_driver *d, struct pl_call *call)
{
    char path[256], why[256] = "", looked[512] = "";
    for (unsigned i = 0; emulator_candidate(i, path, sizeof path); i++) {
        if (path[0] == '\0')
            continue;
        enum outcome o = start(d, path, why, sizeof why, call);
        if (o == STARTED && d->is_emulated)
            return PL_OK;
        if (o == FAILED)
            return PL_E_DRIVER;
        if (o == NO_DEVICE && d->is_emulated)
            return fail_no_device(d, call);
        size_t n = strlen(looked);
        snprintf(looked + n, sizeof looked - n, "%s%s", n != 0 ? ", " : "", path);
    }
    return pl_e_emulator_not_found(call, PL_E_DRIVER, (struct pl_where){0}, looked);
}

pl_status pl_driver_open(struct pl_driver *d, const char *choice, struct pl_call *call)
{
    memset(d, 0, sizeof *d);
    if (choice == NULL)
        choice = pl_os_getenv("PLAUNCH_DRIVER");
    if (choice == NULL || choice[0] == '\0')
        choice = "auto";
    if (strcmp(choice, "cuda") == 0)
        return start_named(d, real_driver, call);
    if (strcmp(choice, "emulator") == 0)
        return start_emulator(d, call);
    if (strcmp(choice, "auto") != 0)
        return start_named(d, choice, call);

    char why[sizeof d->fallback_why] = "";
    enum outcome o = start(d, real_driver, why, sizeof why, call);
    if (o == STARTED)
        return PL_OK;
    if (o == FAILED)
        return PL_E_DRIVER;
    memset(d, 0, sizeof *d);
    pl_status st = start_emulator(d, call);
    memcpy(d->fallback_why, why, sizeof why);
    return st;
}

const char *pl_driver_error_name(const struct pl_driver *d, pl_cu_result r)
{
    const char *text = NULL;
    if (d->cu.GetErrorName == NULL || d->cu.GetErrorName(r, &text) != PL_CU_SUCCESS)
        text = NULL;
    return text != NULL ? text : "unknown error";
}

const char *pl_driver_error_text(const struct pl_driver *d, pl_cu_result r)
{
    const char *text = NULL;
    if (d->cu.GetErrorString == NULL || d->cu.GetErrorString(r, &text) != PL_CU_SUCCESS)
        text = NULL;
    return text != NULL ? text : "no text";
}

bool pl_driver_is_sticky(pl_cu_result r)
{
    /* Source: CUDA Driver API, CUresult: "leaves the process in an inconsistent state". */
    return (r >= PL_CU_ILLEGAL_ADDRESS && r <= PL_CU_LAUNCH_TIMEOUT &&
            r != PL_CU_LAUNCH_OUT_OF_RESOURCES) ||
           r == PL_CU_ASSERT || (r >= PL_CU_HARDWARE_STACK_ERROR && r <= PL_CU_LAUNCH_FAILED) ||
           r == PL_CU_TENSOR_MEMORY_LEAK;
}
