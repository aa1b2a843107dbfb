/*
 * With --rows: the names of the rows that executors serve, which tests/emu_rows.sh looks for. Else
 * prints docs/emulator.md: every row of jit/ptx/ptx.def, by family, as executed or refused with the reason.
 * `make emulator-page` writes it.
 */
#include "emu/exec.h"
#include "emu/launch.h"

#include <stdio.h>
#include <string.h>

struct family {
    const char *title;
    const uint16_t *forms;
    size_t n_forms;
};

#define INS(id, ...) PL_PTX_##id,
static const uint16_t arith[] = {
#include "jit/ptx/arith.def"
};
static const uint16_t convert[] = {
#include "jit/ptx/convert.def"
};
static const uint16_t memory[] = {
#include "jit/ptx/memory.def"
};
static const uint16_t control[] = {
#include "jit/ptx/control.def"
};
static const uint16_t sync_[] = {
#include "jit/ptx/sync.def"
};
static const uint16_t tma[] = {
#include "jit/ptx/tma.def"
};
static const uint16_t mma[] = {
#include "jit/ptx/mma.def"
};
static const uint16_t tcgen05[] = {
#include "jit/ptx/tcgen05.def"
};
static const uint16_t special[] = {
#include "jit/ptx/special.def"
};
#undef INS

#define FAMILY(title, list)                                                                        \
    {                                                                                              \
        title, list, sizeof list / sizeof list[0]                                                  \
    }
static const struct family families[] = {
    FAMILY("Arithmetic, logic, comparison", arith),
    FAMILY("Conversion", convert),
    FAMILY("Memory, moves, atomics", memory),
    FAMILY("Control", control),
    FAMILY("Barriers, fences, warp exchange, mbarrier", sync_),
    FAMILY("Asynchronous copies", tma),
    FAMILY("Matrices: mma, wgmma, ldmatrix", mma),
    FAMILY("Tensor memory: tcgen05", tcgen05),
    FAMILY("Video, textures, surfaces, multicast objects", special),
};

static size_t n_refused(const struct family *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_forms; i++)
        n += pl_emu_forms[f->forms[i]].how == PL_EMU_HOW_REFUSED;
    return n;
}

static void print_family(const struct family *f)
{
    printf("\n## %s\n\n%zu executed, %zu refused.\n\n", f->title, f->n_forms - n_refused(f),
           n_refused(f));
    printf("| row | form | from PTX | from sm | |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < f->n_forms; i++) {
        const struct pl_ptx_info *info = &pl_ptx_infos[f->forms[i]];
        const struct pl_emu_form *form = &pl_emu_forms[f->forms[i]];
        bool is_refused = form->how == PL_EMU_HOW_REFUSED;
        printf("| %s | `%s` | %u.%u | %u%s | %s%s |\n", info->id, info->mnemonic,
               info->gate.ptx_version / 10u, info->gate.ptx_version % 10u, info->gate.sm,
               info->gate.targets != 0 ? " (a, f)" : "", is_refused ? "refused: " : "executed",
               is_refused ? form->reason : "");
    }
}

static void print_device(void)
{
    struct pl_emu_device *d = pl_emu_device_create(&(struct pl_emu_config){0});
    if (d == NULL)
        return;
    const struct pl_emu_config *c = pl_emu_device_config(d);
    printf("\n## The machine\n\n"
           "A warp is interpreted as a unit; a cluster is scheduled as a unit, one host thread at "
           "a time. Without other "
           "settings a device has %u SMs of %u threads, %u KiB of shared memory a CTA, %u KiB of "
           "stack a thread for "
           "calls of unknown depth. The clock counts 4 for each warp instruction of the cluster.\n"
           "A lane that reads another's register in shfl.sync while that one is inactive gets what "
           "the register holds. "
           "The leader of elect.sync is the lowest member. Of several lanes that store to one "
           "address the highest wins.\n"
           "An .aligned barrier waits for the lanes of its warp that have not exited; any other "
           ".aligned instruction needs "
           "every lane that the warp began with.\n",
           c->n_sms, c->threads_per_sm, c->shared_per_cta_bytes / 1024, c->stack_bytes / 1024);
    pl_emu_device_destroy(d);
}

static int print_rows(void)
{
    for (size_t i = 1; i < PL_PTX_COUNT; i++)
        if (pl_emu_forms[i].how == PL_EMU_HOW_EXEC || pl_emu_forms[i].how == PL_EMU_HOW_ACCESS)
            puts(pl_ptx_infos[i].id);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--rows") == 0)
        return print_rows();
    size_t n = 0, n_no = 0;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        n += families[i].n_forms;
        n_no += n_refused(&families[i]);
    }
    printf("# What the emulated driver executes\n\n"
           "Generated from the tables by `make emulator-page`; the columns of a form (`%%` a "
           "modifier, `#` a type) are "
           "explained in jit/ptx/ptx.def.\n"
           "%zu of %zu rows are executed. A refused one makes the load fail with PL8050, naming "
           "the line and the "
           "instruction; nothing is guessed.\n",
           n - n_no, n);
    print_device();
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        print_family(&families[i]);
    return 0;
}
