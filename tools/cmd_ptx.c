#include "tools/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void put(const char *text, size_t n_bytes, void *user) { fwrite(text, 1, n_bytes, user); }

int pl_cmd_ptx(int argc, char **argv)
{
    struct pl_cmd_request r;
    if (!pl_cmd_parse_request(argc, argv, "shape dtype set arch config seed plan trace output", &r))
        return PL_CMD_USAGE;
    r.spec.has_no_values = true;
    struct pl_case c;
    char why[512];
    if (!pl_case_make(r.kernel, &r.spec, &c, why, sizeof why))
        return pl_cmd_usage("ptx", "%s", why);
    pl_arg args
        [PL_CASE_MAX_ARGS]; /* addresses that no two tensors of the largest size (2^47 bytes) share */
    for (size_t i = 0; i < c.n_args; i++)
        args[i] = c.args[i].kind == PL_ARG_TENSOR
                      ? pl_arg_tensor(pl_host_tensor(&c.args[i].host, (uint64_t)(i + 1) << 48))
                  : c.args[i].kind == PL_ARG_F32 ? pl_arg_f32(c.args[i].f32)
                                                 : pl_arg_none();
    pl_report *report = NULL;
    pl_error err = {0};
    int status = PL_CMD_FAILED;
    char arch[24]; /* "90a" is "sm_90a", as in run */
    snprintf(arch, sizeof arch, "%s%s",
             r.arch != NULL && r.arch[0] >= '0' && r.arch[0] <= '9' ? "sm_" : "",
             r.arch != NULL ? r.arch : "sm_90a");
    FILE *to = r.out_file != NULL ? fopen(r.out_file, "w") : stdout;
    if (to == NULL) {
        status = pl_cmd_fail("ptx", "%s: %s", r.out_file, strerror(errno));
    } else if (pl_report_create(&report) == PL_OK) {
        const pl_emit_options options = {.struct_size = sizeof options,
                                         .arch = arch,
                                         .kind = r.wants_plan    ? PL_TEXT_PLAN
                                                 : r.wants_trace ? PL_TEXT_TRACE
                                                                 : PL_TEXT_PTX,
                                         .params = c.has_options ? c.options : NULL,
                                         .config = r.config,
                                         .report = report};
        if (pl_emit(c.kernel, args, c.n_args, &options, put, to, &err) == PL_OK)
            status = PL_CMD_OK;
        else {
            pl_cmd_print_report(report);
            pl_cmd_print_error("ptx", &err);
        }
    }
    if (to != NULL && to != stdout && fclose(to) != 0)
        status = pl_cmd_fail("ptx", "%s: %s", r.out_file, strerror(errno));
    pl_report_destroy(report);
    pl_case_fini(&c);
    return status;
}
