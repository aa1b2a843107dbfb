/*
 * Any text as a program: what loads runs under a step limit and either ends or faults with a code; nothing crashes or hangs.
 * Each text is run as it is and with lines dropped, doubled, swapped and numbers changed, so that few inputs reach far.
 */
#include "emu/launch.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MAX_TEXT_BYTES = 1 << 16, N_CHANGED = 6, BUFFER_BYTES = 4096, STEP_LIMIT = 30000 };

static void launch(struct pl_emu_device *d, const struct pl_emu_func *f)
{
    uint8_t params[4096] = {0};
    const struct pl_emu_func_info *info = pl_emu_func_info(f);
    const struct pl_emu_allocation *a =
        pl_emu_memory_alloc(pl_emu_device_memory(d), BUFFER_BYTES, 0, NULL);
    if (!info->is_entry || info->param_n_bytes > sizeof params || a == NULL)
        return;
    for (uint32_t i = 0; i < info->n_params; i++)
        if (info->params[i].n_bytes == 8)
            memcpy(params + info->params[i].offset_bytes, &a->address, 8);
        else if (info->params[i].n_bytes >= 4)
            params[info->params[i].offset_bytes] = 7;
    struct pl_emu_launch l = {.func = f,
                              .params = params,
                              .grid = {2, 1, 1},
                              .block = {40, 1, 1},
                              .dynamic_shared_bytes = 256};
    struct pl_emu_fault fault;
    if (!pl_emu_launch(d, &l, &fault) && (fault.code == 0 || fault.result == 0))
        abort();
}

static void run(const char *text, size_t n_bytes)
{
    const char *target = strstr(text, ".target sm_");
    unsigned long sm = target != NULL ? strtoul(target + 11, NULL, 10) : 90;
    struct pl_emu_config config = {.sm = (uint16_t)(sm < 1000 ? sm : 90),
                                   .n_threads = 1,
                                   .check = PL_EMU_CHECK_FAULTS,
                                   .policy =
                                       n_bytes % 2 != 0 ? PL_EMU_ASYNC_LATE : PL_EMU_ASYNC_RANDOM,
                                   .memory_bytes = 1 << 24,
                                   .stack_bytes = 4096,
                                   .step_limit = STEP_LIMIT};
    struct pl_emu_device *d = pl_emu_device_create(&config);
    struct pl_emu_program *p = NULL;
    struct pl_emu_fault fault;
    if (d == NULL)
        return;
    if (pl_emu_program_load(d, text, n_bytes, &p, &fault)) {
        for (uint32_t i = 0; i < pl_emu_program_n_funcs(p) && i < 4; i++)
            launch(d, pl_emu_program_func(p, i));
        pl_emu_program_unload(p);
    } else if (fault.result == 0) {
        abort();
    }
    pl_emu_device_destroy(d);
}

/* ---- changes --------------------------------------------------------------------------------------------------------------------- */

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static size_t line_at(const char *text, size_t n_bytes, uint64_t number, size_t *end)
{
    size_t at = n_bytes != 0 ? number % n_bytes : 0;
    while (at != 0 && text[at - 1] != '\n')
        at--;
    *end = at;
    while (*end < n_bytes && text[(*end)++] != '\n')
        ;
    return at;
}

/* One change of `from` into `to`; returns the new length. */
static size_t change(const char *from, size_t n_bytes, char *to, uint64_t *state)
{
    size_t end, other_end, at = line_at(from, n_bytes, next(state), &end);
    size_t other = line_at(from, n_bytes, next(state), &other_end), n = 0;
    bool is_drop = next(state) % 3 == 0, is_number = next(state) % 3 == 0;
    memcpy(to, from, n_bytes);
    if (is_number) { /* a digit somewhere in the line */
        for (size_t i = at; i < end; i++)
            if (to[i] >= '0' && to[i] <= '9' && next(state) % 3 == 0)
                to[i] = (char)('0' + next(state) % 10);
        return n_bytes;
    }
    if (is_drop) {
        memcpy(to + at, from + end, n_bytes - end);
        return n_bytes - (end - at);
    }
    if (n_bytes + (other_end - other) > MAX_TEXT_BYTES)
        return n_bytes;
    memcpy(to, from, at), n = at; /* another line before this one */
    memcpy(to + n, from + other, other_end - other), n += other_end - other;
    memcpy(to + n, from + at, n_bytes - at);
    return n + n_bytes - at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static char text[MAX_TEXT_BYTES + 1], changed[MAX_TEXT_BYTES + 1];
    uint64_t state = n_bytes;
    if (n_bytes > MAX_TEXT_BYTES)
        return 0;
    for (size_t i = 0; i < n_bytes; i++)
        state = state * 31 + data[i];
    memcpy(text, data, n_bytes);
    text[n_bytes] = 0;
    run(text, n_bytes);
    for (int i = 0; i < N_CHANGED; i++) {
        size_t n = change(text, n_bytes, changed, &state);
        changed[n] = 0;
        run(changed, n);
        if (next(&state) % 2 == 0) { /* changes add up */
            memcpy(text, changed, n + 1);
            n_bytes = n;
        }
    }
    return 0;
}
