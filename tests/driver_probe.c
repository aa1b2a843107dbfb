/* Prints what a context came to with the driver choice in PROBE: status, driver code, warnings (event and log) of a fallback, emulated driver taken. */
#include <plaunch/launch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_warnings;

static void hear(const pl_event *e, void *user)
{
    (void)user;
    n_warnings += e->kind == PL_EVENT_EMULATED && e->level == PL_LEVEL_WARNING;
}

/* PL6107 */
static void read_log(pl_severity_level level, const char *topic, const char *text, void *user)
{
    (void)topic, (void)user;
    n_warnings += level == PL_LEVEL_WARNING && strstr(text, "no CUDA device here") != NULL;
}

int main(void)
{
    pl_context *ctx;
    pl_error err;
    const pl_context_options o = {.struct_size = sizeof o,
                                  .driver = getenv("PROBE"),
                                  .cache_dir = "",
                                  .log = read_log,
                                  .event = hear};
    pl_status st = pl_context_create(&ctx, &o, &err);
    bool is_emulator = false;
    if (st == PL_OK) {
        is_emulator = strstr(pl_context_info(ctx).driver_path, "plaunch-emu") != NULL;
        pl_context_destroy(ctx);
    }
    printf("%s %d %d %d\n", pl_status_name(st), st == PL_OK ? 0 : err.driver_code, n_warnings,
           is_emulator);
    return 0;
}
