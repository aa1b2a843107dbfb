/*
 * Programs with one synchronising instruction taken out must be noticed: a fault, a deadlock, or another result, under the
 * late policy or one of the others. Survivors are listed below, each with the reason why nothing can go wrong without it.
 */
#include "emu/launch.h"
#include "emu/tensormap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_BYTES = 1 << 16, MAX_TEXT = 1 << 17, MAX_MUTANTS = 512 };

/* ---- what is run ------------------------------------------------------------------------------------------------------------ */

static const struct subject {
    const char *file, *entry;
    uint32_t block, cluster, a, b; /* a, b: the two numbers of the entries of async_bulk.ptx */
    bool has_map;
} subjects[] = {
    {"async_tma.ptx", "load", 64, 0, 0, 0, true},
    {"async_tma.ptx", "store", 32, 0, 0, 0, true},
    {"async_tma.ptx", "add", 32, 0, 0, 0, true},
    {"async_cluster.ptx", "multicast", 64, 2, 0, 0, true},
    {"async_cluster.ptx", "ring", 32, 4, 0, 0, false},
    {"async_cluster.ptx", "st_async", 32, 2, 0, 0, false},
    {"async_cluster.ptx", "red_async", 32, 4, 0, 0, false},
    {"async_cluster.ptx", "peer_copy", 32, 2, 0, 0, false},
    {"async_bulk.ptx", "ring", 64, 0, 2, 7, false},
    {"async_bulk.ptx", "stores", 32, 0, 0xa5f0, 0, false},
    {"async_bulk.ptx", "cp", 32, 0, 8, 0, false},
    {"async_bulk.ptx", "cp_arrive", 32, 0, 0, 0, false},
    {"async_modes.ptx", "pair", 32, 2, 0, 0, true},
    {"async_modes.ptx", "replace", 32, 0, 0, 0, true},
};
enum { N_SUBJECTS = sizeof subjects / sizeof subjects[0] };

/* Instructions that a mutant lacks. */
static const char *const removable[] = {
    "fence.",       "bar.sync",   "barrier.cluster", "mbarrier.arrive",          "mbarrier.init",
    "commit_group", "wait_group", "wait_all",        "cp.async.mbarrier.arrive", "W_BRANCH",
};

/* Mutants that behave: entry, the instruction's text, why. */
static const struct survivor {
    const char *entry, *text, *why;
} survivors[] = {
    {"multicast", "barrier.cluster.wait",
     "the last one: no peer touches this CTA's memory any more"},
    {"ring", "barrier.cluster.wait", "the last one: no peer touches this CTA's memory any more"},
    {"st_async", "barrier.cluster.wait",
     "the last one: no peer touches this CTA's memory any more"},
    {"red_async", "barrier.cluster.wait",
     "the last one: no peer touches this CTA's memory any more"},
    {"st_async", "fence.mbarrier_init",
     "the release of barrier.cluster publishes it to the generic proxy"},
    {"red_async", "fence.mbarrier_init",
     "the release of barrier.cluster publishes it to the generic proxy"},
    {"stores", "cp.async.bulk.commit_group",
     "the copy joins the next group; the last wait is for all"},
    {"stores", "cp.async.bulk.wait_group.read",
     "nothing overwrites the source; the last wait is for all"},
    {"cp_arrive", "cp.async.mbarrier.arrive.noinc", "the other branch is taken"},
};

/* ---- mutants ---------------------------------------------------------------------------------------------------------------------- */

struct mutant {
    const struct subject *subject;
    uint32_t line; /* from 1; 0: none is taken out */
};
static struct mutant mutants[MAX_MUTANTS];
static int n_mutants;

static size_t read_file(const char *name, char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/ptx/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    size_t n = fread(text, 1, MAX_TEXT - 1, f);
    fclose(f);
    text[n] = 0;
    return n;
}

/* A branch back to a label that a try_wait follows is the wait itself. */
static bool is_removable(const char *line)
{
    const char *body = line + strspn(line, " ");
    if (strncmp(body, "@!p bra W", 9) == 0 || strncmp(body, "@!p0 bra W", 10) == 0 ||
        strncmp(body, "@!q bra W", 9) == 0 || strncmp(body, "@!p bra CWAIT", 13) == 0 ||
        strncmp(body, "@!p bra PWAIT", 13) == 0)
        return true;
    for (size_t i = 0; i < sizeof removable / sizeof removable[0]; i++)
        if (strncmp(body, removable[i], strlen(removable[i])) == 0 ||
            (strncmp(body, "cp.async", 8) == 0 && strstr(body, removable[i]) != NULL &&
             strstr(body, "bulk_group") == NULL))
            return true;
    return false;
}

static void list_mutants_of(const struct subject *s)
{
    static char text[MAX_TEXT];
    char entry[64];
    read_file(s->file, text);
    snprintf(entry, sizeof entry, ".visible .entry %s(", s->entry);
    bool is_in = false;
    uint32_t number = 1;
    for (char *line = text; line != NULL && *line != 0; number++) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end = 0;
        is_in =
            strncmp(line, ".visible", 8) == 0 ? strncmp(line, entry, strlen(entry)) == 0 : is_in;
        if (is_in && is_removable(line) && n_mutants < MAX_MUTANTS)
            mutants[n_mutants++] = (struct mutant){s, number};
        line = end != NULL ? end + 1 : NULL;
    }
}

/* Blank out one line of the text; its content goes to `gone`. */
static void take_out(char *text, uint32_t number, char *gone, size_t gone_bytes)
{
    char *line = text;
    for (uint32_t i = 1; i < number; i++)
        line = strchr(line, '\n') + 1;
    size_t n = strcspn(line, "\n");
    snprintf(gone, gone_bytes, "%.*s", (int)n, line + strspn(line, " "));
    gone[strcspn(gone, "\n")] = 0;
    memset(line, ' ', n);
}

/* ---- runs ---------------------------------------------------------------------------------------------------------------------------- */

struct result {
    bool is_well;
    int code;
    uint8_t memory[2][MEMORY_BYTES];
};

static struct pl_emu_config config_of(const char *text, int policy)
{
    return (struct pl_emu_config){.sm = strstr(text, "sm_90a") != NULL ? 90 : 100,
                                  .n_sms = 1,
                                  .memory_bytes = 1 << 24,
                                  .check = PL_EMU_CHECK_RACE,
                                  .policy = policy == 0   ? PL_EMU_ASYNC_EAGER
                                            : policy == 1 ? PL_EMU_ASYNC_LATE
                                                          : PL_EMU_ASYNC_RANDOM,
                                  .seed = (uint64_t)policy * 7,
                                  .n_threads = 1,
                                  .step_limit = 20000};
}

static void put_map(uint8_t *out, uint64_t address)
{
    struct pl_tmap_request r = {.map = {.type = PL_TMAP_BF16,
                                        .swizzle = PL_TMAP_SWIZZLE_128B,
                                        .rank = 2,
                                        .address = address,
                                        .dims = {80, 50},
                                        .strides_bytes = {0, 176},
                                        .box = {64, 8},
                                        .elem_strides = {1, 1}}};
    struct pl_arena arena = {0};
    struct pl_diags ds;
    pl_diags_init(&ds, &arena);
    ck_assert(pl_tensormap_encode(&r, &ds, out));
    pl_arena_fini(&arena);
}

static void run(const struct subject *s, const char *text, int policy, struct result *out)
{
    struct pl_emu_config c = config_of(text, policy);
    struct pl_emu_device *d = pl_emu_device_create(&c);
    struct pl_emu_program *p;
    struct pl_emu_fault fault = {0};
    ck_assert_msg(pl_emu_program_load(d, text, strlen(text), &p, &fault), "line %u: %s", fault.line,
                  fault.text);
    const struct pl_emu_allocation *m[2];
    for (int i = 0; i < 2; i++) {
        m[i] = pl_emu_memory_alloc(pl_emu_device_memory(d), MEMORY_BYTES, 0, NULL);
        for (uint32_t k = 0; k < MEMORY_BYTES; k++)
            m[i]->host[k] = (uint8_t)(k % 4 == 3 || k % 2 == 1 ? 0x3f : k * 5 + (uint32_t)i);
    }
    uint8_t params[256] = {0};
    memcpy(params, &m[0]->address, 8);
    if (s->has_map) {
        const uint32_t numbers[3] = {8, 3, 64 * 8 * 2};
        put_map(params + 64, m[1]->address);
        memcpy(params + 192, numbers, sizeof numbers);
    } else {
        memcpy(params + 8, &m[1]->address, 8);
        memcpy(params + 16, &s->a, 4);
        memcpy(params + 20, &s->b, 4);
    }
    struct pl_emu_launch l = {.func = pl_emu_program_find(p, s->entry),
                              .params = params,
                              .grid = {s->cluster != 0 ? s->cluster : 1, 1, 1},
                              .block = {s->block, 1, 1},
                              .cluster = {s->cluster, s->cluster != 0, s->cluster != 0},
                              .dynamic_shared_bytes = 8192};
    out->is_well = pl_emu_launch(d, &l, &fault);
    out->code = fault.code;
    for (int i = 0; i < 2; i++)
        memcpy(out->memory[i], m[i]->host, MEMORY_BYTES);
    pl_emu_program_unload(p);
    pl_emu_device_destroy(d);
}

static bool is_listed(const struct mutant *x, const char *gone)
{
    for (size_t i = 0; i < sizeof survivors / sizeof survivors[0]; i++)
        if ((survivors[i].entry[0] == 0 || strcmp(survivors[i].entry, x->subject->entry) == 0) &&
            strncmp(gone, survivors[i].text, strlen(survivors[i].text)) == 0)
            return true;
    return false;
}

START_TEST(mutant_is_noticed)
{
    static char text[MAX_TEXT];
    static struct result whole, got;
    const struct mutant *x = &mutants[_i];
    char gone[256];
    read_file(x->subject->file, text);
    run(x->subject, text, 0, &whole);
    ck_assert_msg(whole.is_well, "%s itself raises PL%d", x->subject->entry, whole.code);
    take_out(text, x->line, gone, sizeof gone);
    bool is_noticed = false;
    for (int policy = 1; policy < 12 && !is_noticed; policy++) { /* late, then random orders */
        run(x->subject, text, policy, &got);
        is_noticed = !got.is_well || memcmp(got.memory, whole.memory, sizeof got.memory) != 0;
    }
    ck_assert_msg(is_noticed || is_listed(x, gone), "%s:%u: %s runs as well without \"%s\"",
                  x->subject->file, x->line, x->subject->entry, gone);
}
END_TEST

static Suite *make_suite(void)
{
    for (size_t i = 0; i < N_SUBJECTS; i++)
        list_mutants_of(&subjects[i]);
    Suite *s = suite_create("async_mutants");
    TCase *t = tcase_create("mutants");
    tcase_add_loop_test(t, mutant_is_noticed, 0, n_mutants);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
