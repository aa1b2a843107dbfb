#ifndef PL_TESTS_MUTANT_H
#define PL_TESTS_MUTANT_H
/*
 * Mutants of one emitted PTX text: the text with one synchronising instruction taken out, run on the emulated driver with the
 * very parameters that pl_launch would pass, and compared byte by byte with what the whole text gives.
 *
 * A site is an instruction that orders, signals or waits (by its flags in jit/ptx/ptx.def) and gives no value that the rest needs.
 * A wait on an mbarrier is its try_wait together with the branch that repeats it: taken out, the threads do not wait.
 *
 * Nothing a mutant does stays: it runs in a CUDA context of its own, and every tensor is uploaded again before each run.
 */
#include "jit/ptx/ptx.h"
#include "tools/case.h"

enum { MUTANT_MAX_SETTINGS = 8, MUTANT_MAX_SITES = 160, MUTANT_WHERE_BYTES = 200 };

/* One launch of the text: arguments on the device, what the driver is given, and the bytes that come out. */
struct mutant_setting {
    struct pl_case c; /* its hosts keep the bytes before the launch */
    pl_arg args[PL_CASE_MAX_ARGS];
    uint64_t device[PL_CASE_MAX_ARGS];
    pl_pack pack;
    unsigned char *want[PL_CASE_MAX_ARGS]; /* of every tensor, gaps included; owned */
    char step_limit[24];
};

enum mutant_end {
    MUTANT_SAME,     /* every byte as the whole text gives it */
    MUTANT_REPORTED, /* a fault */
    MUTANT_HANGS,    /* a deadlock or the step limit */
    MUTANT_WRONG,    /* another byte somewhere */
};

struct mutant_site {
    uint32_t ins;               /* index in the module */
    uint32_t line, second_line; /* that are taken out; second_line 0: only one */
    char where
        [MUTANT_WHERE_BYTES]; /* "before > instruction > after": mnemonics of the neighbours that synchronise or copy */
    char text[MUTANT_WHERE_BYTES]; /* as emitted */
};

struct mutant_text {
    char *text; /* owned */
    size_t n_bytes;
    char entry[64];
    int device; /* ordinal of the emulated device */
    struct pl_arena arena;
    struct pl_ptx_module module;
    struct mutant_setting *settings[MUTANT_MAX_SETTINGS]; /* owned */
    size_t n_settings;
    struct mutant_site sites[MUTANT_MAX_SITES];
    size_t n_sites;
};

/* Loads the driver named by PLAUNCH_DRIVER and makes a pl_context for each device. False: a message was printed. */
bool mutant_open(const char *devices, int n_devices);
void mutant_close(void);

/*
 * The text of one launch and its first setting. PL_E_INVALID and PL_E_UNSUPPORTED: that configuration does not serve these
 * arguments, nothing was made; any other failure prints a message.
 */
pl_status mutant_text_make(struct mutant_text *t, const struct pl_case_kernel *k,
                           const struct pl_case_spec *spec, int device, int32_t config);
/* Another launch of the same kernel and configuration; false: its text is another one, or it is full. */
bool mutant_text_add(struct mutant_text *t, const struct pl_case_kernel *k,
                     const struct pl_case_spec *spec, int32_t config);
void mutant_text_fini(struct mutant_text *t);

/* Runs one setting without the site (NULL: the whole text) under an asynchrony as of PLAUNCH_EMU_ASYNC. */
enum mutant_end mutant_run(const struct mutant_text *t, const struct mutant_site *site,
                           struct mutant_setting *setting, const char *policy);
/* The report of the last run that ended as REPORTED or HANGS. */
const char *mutant_last_fault(void);
#endif
