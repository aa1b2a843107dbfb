#ifndef PL_TOOLS_CMD_H
#define PL_TOOLS_CMD_H
/*
 * The plaunch command: a subcommand a file, each `int pl_cmd_<name>(int argc, char **argv)` with argv[0] its name.
 * Exit status: 0 fine, 1 the work failed (a check, a comparison), 2 wrong usage.
 */
#include <plaunch.h>

#include "tools/case.h"

#include <jansson.h>
#include <stdbool.h>

enum { PL_CMD_OK = 0, PL_CMD_FAILED = 1, PL_CMD_USAGE = 2 };

struct pl_cmd {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage; /* after the name */
    const char *what;
};
extern const struct pl_cmd pl_cmds[];
extern const size_t pl_cmd_count;

/* Prints "plaunch NAME: ..." on stderr and gives PL_CMD_USAGE. */
int pl_cmd_usage(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints "plaunch NAME: ..." on stderr and gives PL_CMD_FAILED. */
int pl_cmd_fail(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line on stderr when that is a terminal. */
void pl_cmd_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int pl_cmd_print_json(json_t *root); /* takes the reference; PL_CMD_OK or PL_CMD_FAILED */
void pl_cmd_print_error(const char *name, const pl_error *err);
void pl_cmd_print_report(const pl_report *report);

/* "4096x1000": extents of 0 and more. False when it is not a shape of rank 1..8. */
bool pl_cmd_parse_shape(const char *text, pl_shape *out);
bool pl_cmd_parse_i64(const char *text, int64_t *out);

/* What run, ptx and bench share: a kernel and how its arguments are made. */
struct pl_cmd_request {
    const struct pl_case_kernel *kernel;
    struct pl_case_spec spec;
    const char *arch;   /* NULL: the device's, or sm_90a where there is none */
    const char *driver; /* NULL: default */
    const char *out_npy;
    int32_t config; /* as pl_launch_options.config */
    bool is_json, wants_plan, wants_trace;
    const char *out_file;
};
/* False: a message was printed and the status is PL_CMD_USAGE. `allowed` lists the long options served, separated by spaces. */
bool pl_cmd_parse_request(int argc, char **argv, const char *allowed, struct pl_cmd_request *out);

#define COMMAND(id, usage, what) int pl_cmd_##id(int argc, char **argv);
#include "tools/cmd.def"
#undef COMMAND
#endif
