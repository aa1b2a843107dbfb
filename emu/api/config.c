#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/config.h"

#include "base/debug.h"
#include "base/os.h"
#include "emu/api/state.h"
#include "emu/plaunch_emu.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "0"
#endif

/* ---- values ----------------------------------------------------------------------------------------- */

/* A decimal number that ends at `end` characters or at the text's end; false when it is none or out of range. */
static bool parse_number(const char *text, size_t n_chars, uint64_t most, uint64_t *out)
{
    uint64_t v = 0;
    if (n_chars == 0)
        return false;
    for (size_t i = 0; i < n_chars; i++) {
        if (!isdigit((unsigned char)text[i]) || v > (most - (uint64_t)(text[i] - '0')) / 10)
            return false;
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    *out = v;
    return v <= most;
}

static bool parse_whole(const char *text, uint64_t most, uint64_t *out)
{
    return parse_number(text, strlen(text), most, out);
}

/* "sm_90a", "sm_90", "90a", "90": the emulated chip has the features of all three targets. */
static bool parse_arch(const char *text, size_t n_chars, int *sm)
{
    if (n_chars >= 3 && strncasecmp(text, "sm_", 3) == 0) {
        text += 3;
        n_chars -= 3;
    }
    if (n_chars != 0 && (text[n_chars - 1] == 'a' || text[n_chars - 1] == 'f'))
        n_chars--;
    uint64_t v;
    if (!parse_number(text, n_chars, 999, &v) || pl_chip_find((int)v) == NULL)
        return false;
    *sm = (int)v;
    return true;
}

static bool set_arch(struct pl_settings *s, const char *value)
{
    int sm;
    if (!parse_arch(value, strlen(value), &sm))
        return false;
    for (int i = 0; i < PL_MAX_DEVICES; i++)
        s->sms[i] = sm;
    return true;
}

/* A count of equal devices, or a list of archs. A number that is a known arch and not a possible count is a list of one. */
static bool set_devices(struct pl_settings *s, const char *value)
{
    uint64_t n;
    if (parse_whole(value, PL_MAX_DEVICES, &n)) {
        s->n_devices = (int)n;
        for (int i = 1; i < PL_MAX_DEVICES; i++)
            s->sms[i] = s->sms[0];
        return true;
    }
    struct pl_settings got = *s;
    got.n_devices = 0;
    for (const char *p = value; got.n_devices < PL_MAX_DEVICES; p++) {
        size_t n_chars = strcspn(p, ",");
        if (!parse_arch(p, n_chars, &got.sms[got.n_devices]))
            return false;
        got.n_devices++;
        p += n_chars;
        if (*p == '\0') {
            *s = got;
            return true;
        }
    }
    return false;
}

static bool set_sms(struct pl_settings *s, const char *value)
{
    uint64_t n;
    bool ok = parse_whole(value, 1024, &n) && n != 0;
    if (ok)
        s->n_sms = (int)n;
    return ok;
}

static bool set_memory(struct pl_settings *s, const char *value)
{
    uint64_t n;
    bool ok = parse_whole(value, UINT64_C(1) << 44, &n) && n != 0;
    if (ok)
        s->memory_bytes = n;
    return ok;
}

static bool set_driver_version(struct pl_settings *s, const char *value)
{
    uint64_t n;
    bool ok = parse_whole(value, 99990, &n) && n >= 2000;
    if (ok)
        s->driver_version = (int)n;
    return ok;
}

static bool set_async(struct pl_settings *s, const char *value)
{
    if (strcmp(value, "eager") == 0)
        return s->policy = PL_EMU_ASYNC_EAGER, true;
    if (strcmp(value, "late") == 0)
        return s->policy = PL_EMU_ASYNC_LATE, true;
    uint64_t seed = 0;
    if (strncmp(value, "random:", 7) != 0 || !parse_whole(value + 7, UINT64_MAX, &seed))
        return false;
    s->policy = PL_EMU_ASYNC_RANDOM;
    s->seed = seed;
    return true;
}

static bool set_check(struct pl_settings *s, const char *value)
{
    static const char *const names[] = {"off", "faults", "race"};
    for (size_t i = 0; i < PL_COUNT(names); i++)
        if (strcmp(value, names[i]) == 0)
            return s->check = (enum pl_emu_check)i, true;
    return false;
}

static bool set_u32(const char *value, uint32_t most, uint32_t *out)
{
    uint64_t n;
    bool ok = parse_whole(value, most, &n);
    if (ok)
        *out = (uint32_t)n;
    return ok;
}

static bool set_threads(struct pl_settings *s, const char *value)
{
    return set_u32(value, 256, &s->n_threads);
}

static bool set_stack(struct pl_settings *s, const char *value)
{
    return set_u32(value, 1u << 28, &s->stack_bytes);
}

static bool set_max_libraries(struct pl_settings *s, const char *value)
{
    return set_u32(value, 1u << 20, &s->max_libraries);
}

static bool set_step_limit(struct pl_settings *s, const char *value)
{
    return parse_whole(value, UINT64_MAX, &s->step_limit);
}

static bool set_report(struct pl_settings *s, const char *value)
{
    s->is_reporting = strcmp(value, "stderr") == 0;
    return s->is_reporting || strcmp(value, "off") == 0;
}

static bool set_printf(struct pl_settings *s, const char *value)
{
    static const char *const names[] = {"off", "stdout", "stderr"};
    for (size_t i = 0; i < PL_COUNT(names); i++)
        if (strcmp(value, names[i]) == 0)
            return s->printf_fd = (int)i, true;
    return false;
}

/* In the order in which the environment is read: arch before devices, which may be a list of others. */
static const struct key {
    const char *name, *variable;
    bool is_early; /* may change only while there are no devices */
    bool (*set)(struct pl_settings *s, const char *value);
    const char *wanted;
} keys[] = {
    {"arch", "PLAUNCH_EMU_ARCH", true, set_arch, "sm_80, 86, 89, 90, 100, 103, 120 or 121"},
    {"devices", "PLAUNCH_EMU_DEVICES", true, set_devices,
     "a count, or a list such as sm_90,sm_100"},
    {"sms", "PLAUNCH_EMU_SMS", true, set_sms, "1 to 1024"},
    {"memory_bytes", "PLAUNCH_EMU_MEMORY", true, set_memory, "bytes of a device, up to 2^44"},
    {"driver_version", "PLAUNCH_EMU_DRIVER_VERSION", false, set_driver_version,
     "a number such as 13000"},
    {"async", "PLAUNCH_EMU_ASYNC", false, set_async, "eager, late or random:SEED"},
    {"check", "PLAUNCH_EMU_CHECK", false, set_check, "off, faults or race"},
    {"threads", "PLAUNCH_EMU_THREADS", false, set_threads, "a count, or 0 for one a CPU"},
    {"step_limit", "PLAUNCH_EMU_STEP_LIMIT", false, set_step_limit,
     "a number of instructions, or 0 for none"},
    {"stack_bytes", NULL, false, set_stack, "bytes"},
    {"report", "PLAUNCH_EMU_REPORT", false, set_report, "off or stderr"},
    {"printf", "PLAUNCH_EMU_PRINTF", false, set_printf, "off, stdout or stderr"},
    {"max_libraries", NULL, false, set_max_libraries, "a count, or 0 for no limit"},
};

CUresult pl_config_read_environment(void)
{
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < PL_COUNT(keys); i++) {
        const char *value = keys[i].variable == NULL ? NULL : pl_os_getenv(keys[i].variable);
        if (value == NULL || (pl_process.keys_set >> i & 1) != 0)
            continue;
        if (!keys[i].set(&pl_process.settings, value)) {
            r = CUDA_ERROR_INVALID_VALUE;
            snprintf(pl_process.fault_text, sizeof pl_process.fault_text, "%s=%.60s: wanted %s",
                     keys[i].variable, value, keys[i].wanted);
        }
    }
    return r;
}

/* ---- fault injection ---------------------------------------------------------------------------------- */

/* Every form of a function, by name or by symbol: "cuMemAlloc" and "cuMemAlloc_v2" are both cuMemAlloc_v2. */
static bool is_function(const struct pl_api_info *f, const char *text, size_t n_chars)
{
    return (strlen(f->name) == n_chars && strncmp(f->name, text, n_chars) == 0) ||
           (strlen(f->symbol) == n_chars && strncmp(f->symbol, text, n_chars) == 0);
}

/* cuFunction:N:CODE or cuFunction:N+:CODE */
static int add_rules(const char *value)
{
    size_t n_name = strcspn(value, ":");
    const char *count = value + n_name + 1;
    size_t n_count = value[n_name] == '\0' ? 0 : strcspn(count, ":");
    if (n_count == 0 || count[n_count] == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    bool is_lasting = count[n_count - 1] == '+';
    uint64_t n, code;
    if (!parse_number(count, n_count - is_lasting, UINT32_MAX, &n) || n == 0 ||
        !parse_whole(count + n_count + 1, 999, &code) || code == 0)
        return CUDA_ERROR_INVALID_VALUE;
    int r = CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < PL_API_COUNT; i++) {
        if (!is_function(&pl_api_infos[i], value, n_name))
            continue;
        if (pl_process.n_rules == PL_MAX_RULES)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pl_process.rules[pl_process.n_rules] = (struct pl_rule){
            (enum pl_api)i, atomic_load(&pl_process.n_calls[i]) + n, is_lasting, (CUresult)code};
        atomic_fetch_add_explicit(&pl_process.n_rules, 1, memory_order_release);
        r = CUDA_SUCCESS;
    }
    return r;
}

static int configure_fail(const char *value)
{
    if (*value != '\0')
        return add_rules(value);
    pl_process.n_rules = 0;
    return CUDA_SUCCESS;
}

/* ---- exported ------------------------------------------------------------------------------------------- */

const char *plaunch_emu_version(void) { return PACKAGE_VERSION; }

static int reset(const char *value)
{
    bool is_all = strcmp(value, "all") == 0;
    if (!is_all && strcmp(value, "1") != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pl_process_reset();
    if (is_all) {
        pl_process.settings = pl_settings_default;
        pl_process.keys_set = 0;
    }
    return CUDA_SUCCESS;
}

static int configure(const char *key, const char *value)
{
    struct pl_process *p = &pl_process;
    bool is_cold = atomic_load(&p->phase) == PL_PHASE_COLD;
    if (strcmp(key, "fail") == 0)
        return configure_fail(value);
    if (strcmp(key, "reset") == 0)
        return reset(value);
    for (size_t i = 0; i < PL_COUNT(keys); i++) {
        if (strcmp(key, keys[i].name) != 0)
            continue;
        if (keys[i].is_early && !is_cold)
            return CUDA_ERROR_ILLEGAL_STATE;
        if (!keys[i].set(&p->settings, value))
            return CUDA_ERROR_INVALID_VALUE;
        p->keys_set |= UINT64_C(1) << i;
        pl_process_configure_devices();
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

int plaunch_emu_configure(const char *key, const char *value)
{
    if (key == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pl_lock();
    int r = configure(key, value);
    pl_unlock();
    return r;
}

static uint64_t query(const char *counter)
{
    const struct pl_process *p = &pl_process;
    if (strncmp(counter, "calls:", 6) == 0) {
        uint64_t sum = 0;
        bool is_known = false;
        for (int i = 0; i < PL_API_COUNT; i++) {
            if (!is_function(&pl_api_infos[i], counter + 6, strlen(counter + 6)))
                continue;
            is_known = true;
            sum += atomic_load(&p->n_calls[i]);
        }
        return is_known ? sum : UINT64_MAX;
    }
#define COUNTER(name, value)                                                                       \
    if (strcmp(counter, #name) == 0)                                                               \
        return value;
#include "emu/counter.def"
#undef COUNTER
    return UINT64_MAX;
}

uint64_t plaunch_emu_query(const char *counter)
{
    if (counter == NULL)
        return UINT64_MAX;
    pl_lock();
    uint64_t v = query(counter);
    pl_unlock();
    return v;
}

size_t plaunch_emu_last_fault(char *text, size_t n_bytes)
{
    pl_lock();
    size_t n = strlen(pl_process.fault_text);
    if (text != NULL && n_bytes != 0)
        snprintf(text, n_bytes, "%s", pl_process.fault_text);
    pl_unlock();
    return n;
}
