#include "tools/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct pl_cmd pl_cmds[] = {
#define COMMAND(id, usage, what) {#id, pl_cmd_##id, usage, what},
#include "tools/cmd.def"
#undef COMMAND
};
const size_t pl_cmd_count = sizeof pl_cmds / sizeof pl_cmds[0];

static void say(const char *name, const char *fmt, va_list ap)
{
    fprintf(stderr, "plaunch %s: ", name);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

int pl_cmd_usage(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(name, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < pl_cmd_count; i++)
        if (strcmp(pl_cmds[i].name, name) == 0)
            fprintf(stderr, "usage: plaunch %s %s\n", name, pl_cmds[i].usage);
    return PL_CMD_USAGE;
}

int pl_cmd_fail(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(name, fmt, ap);
    va_end(ap);
    return PL_CMD_FAILED;
}

void pl_cmd_progress(const char *fmt, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int pl_cmd_print_json(json_t *root)
{
    int status =
        root != NULL && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0
            ? PL_CMD_OK
            : PL_CMD_FAILED;
    putchar('\n');
    json_decref(root);
    return status;
}

static int print_help(FILE *to)
{
    fprintf(to, "plaunch: GPU kernels written at the moment they are launched\n\n");
    for (size_t i = 0; i < pl_cmd_count; i++)
        fprintf(to, "  plaunch %s %s\n      %s\n", pl_cmds[i].name, pl_cmds[i].usage,
                pl_cmds[i].what);
    return to == stdout ? PL_CMD_OK : PL_CMD_USAGE;
}

/* What was printed must have arrived: a full disk, a closed stdout. */
static int close_stdout(const char *name, int status)
{
    errno = 0;
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    if (is_written || status != PL_CMD_OK)
        return status;
    return pl_cmd_fail(name, "stdout: %s", errno != 0 ? strerror(errno) : "a write failed");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return print_help(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return close_stdout("help", print_help(stdout));
    for (size_t i = 0; i < pl_cmd_count; i++)
        if (strcmp(pl_cmds[i].name, argv[1]) == 0)
            return close_stdout(argv[1], pl_cmds[i].run(argc - 1, argv + 1));
    fprintf(stderr, "plaunch: no command named %s\n", argv[1]);
    return print_help(stderr);
}
