#include "tools/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void shape_text(const pl_shape *s, char *out, size_t out_bytes)
{
    int n = 0;
    out[0] = '\0';
    for (int i = 0; i < s->rank; i++)
        n += snprintf(out + n, out_bytes - (size_t)n, i == 0 ? "%" PRId64 : "x%" PRId64, s->d[i]);
}

/* JSON has no infinity and no NaN. */
static json_t *number(double v) { return v - v == 0.0 ? json_real(v) : json_null(); }

static json_t *stages_json(const pl_stage_ns *ns)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "trace", (json_int_t)ns->trace, "check",
                     (json_int_t)ns->check, "plan", (json_int_t)ns->plan, "emit",
                     (json_int_t)ns->emit, "assemble", (json_int_t)ns->assemble, "load",
                     (json_int_t)ns->load, "launch", (json_int_t)ns->launch);
}

/* The keys that both outcomes have. */
static json_t *common_json(const struct pl_cmd_request *r, const pl_context_facts *facts,
                           const pl_stage_ns *ns, bool is_ok)
{
    char shape[200];
    shape_text(&r->spec.shape, shape, sizeof shape);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:n, s:n, s:o}", "kernel",
                     r->kernel->name, "arch", facts->arch_name, "driver", facts->driver_path,
                     "dtype", pl_dtype_name(r->spec.dtype), "shape", shape, "emulated",
                     (int)facts->is_emulated, "ok", (int)is_ok, "max_abs_err", "max_rel_err", "ns",
                     stages_json(ns));
}

static int fail(const struct pl_cmd_request *r, const pl_context_facts *facts,
                const pl_stage_ns *ns, const pl_error *err)
{
    pl_cmd_print_error("run", err);
    if (r->is_json) {
        json_t *root = common_json(r, facts, ns, false);
        char code[16];
        snprintf(code, sizeof code, "PL%04d", (int)err->code);
        json_object_set_new(root, "status", json_string(pl_status_name(err->status)));
        json_object_set_new(root, "code", err->code != 0 ? json_string(code) : json_null());
        json_object_set_new(root, "error", json_string(err->text));
        pl_cmd_print_json(root);
    }
    return PL_CMD_FAILED;
}

static int print_result(const struct pl_cmd_request *r, const pl_context_facts *facts,
                        const struct pl_case_result *res, const pl_stage_ns *ns)
{
    char shape[200];
    shape_text(&r->spec.shape, shape, sizeof shape);
    if (r->is_json) {
        json_t *root = common_json(r, facts, ns, res->is_ok);
        json_object_set_new(root, "max_abs_err", number(res->max_abs_err));
        json_object_set_new(root, "max_rel_err", number(res->max_rel_err));
        json_object_set_new(root, "wrong", json_integer(res->n_wrong));
        json_object_set_new(root, "red_zones_intact", json_boolean(res->is_gap_intact));
        int status = pl_cmd_print_json(root);
        return res->is_ok ? status : PL_CMD_FAILED;
    }
    printf("%s %s %s on %s (%s%s)\n", r->kernel->name, shape, pl_dtype_name(r->spec.dtype),
           facts->device_name, facts->arch_name, facts->is_emulated ? ", emulated driver" : "");
    printf("  trace %.1f us, check %.1f us, plan %.1f us, emit %.1f us, assemble %.1f us, load "
           "%.1f us, launch %.1f us\n",
           (double)ns->trace / 1e3, (double)ns->check / 1e3, (double)ns->plan / 1e3,
           (double)ns->emit / 1e3, (double)ns->assemble / 1e3, (double)ns->load / 1e3,
           (double)ns->launch / 1e3);
    printf("  against float64: largest error %.3g, relative %.3g\n", res->max_abs_err,
           res->max_rel_err);
    if (res->n_wrong != 0)
        printf("  %" PRId64 " elements are past their bound; first %" PRId64
               ": got %.9g, wanted %.9g within %.3g\n",
               res->n_wrong, res->first_wrong, res->first_got, res->first_want, res->first_bound);
    if (!res->is_gap_intact)
        printf("  bytes outside the tensors were written\n");
    printf("%s\n", res->is_ok ? "ok" : "FAILED");
    return res->is_ok ? PL_CMD_OK : PL_CMD_FAILED;
}

/* "sm_90a", "sm_90" and "90" name one chip. */
static int arch_number(const char *arch)
{
    return atoi(strncmp(arch, "sm_", 3) == 0 ? arch + 3 : arch);
}

static int run_on(const struct pl_cmd_request *r, struct pl_case *c, pl_context *ctx,
                  pl_report *report)
{
    const pl_context_facts facts = pl_context_info(ctx);
    if (r->arch != NULL && arch_number(r->arch) != facts.device.arch)
        return pl_cmd_fail("run", "--arch %s was asked for, the device is %s", r->arch,
                           facts.arch_name);
    pl_stage_ns ns = {0};
    const pl_launch_options options = {
        .struct_size = sizeof options, .report = report, .stages = &ns, .config = r->config};
    pl_error err = {0};
    pl_cmd_progress("launching %s", r->kernel->name);
    if (pl_case_run(c, ctx, &options, &err) != PL_OK) {
        if (pl_report_count(report) > 0)
            pl_cmd_print_report(report);
        return fail(r, &facts, &ns, &err);
    }
    const struct pl_case_result res = pl_case_compare(c);
    int status = print_result(r, &facts, &res, &ns);
    char why[256];
    if (r->out_npy != NULL &&
        !pl_host_save_npy(&c->args[c->output].host, r->out_npy, why, sizeof why))
        status = pl_cmd_fail("run", "%s: %s", r->out_npy, why);
    return status;
}

int pl_cmd_run(int argc, char **argv)
{
    struct pl_cmd_request r;
    if (!pl_cmd_parse_request(argc, argv, "shape dtype set arch driver config in out seed json",
                              &r))
        return PL_CMD_USAGE;
    struct pl_case c;
    char why[512];
    pl_cmd_progress("making inputs and the reference");
    if (!pl_case_make(r.kernel, &r.spec, &c, why, sizeof why))
        return pl_cmd_usage("run", "%s", why);
    if (r.arch != NULL)
        setenv("PLAUNCH_EMU_ARCH", r.arch, 1); /* which chip the emulated driver shows */
    pl_context_options options = {.struct_size = sizeof options, .driver = r.driver};
    pl_context *ctx = NULL;
    pl_report *report = NULL;
    pl_error err = {0};
    int status = PL_CMD_FAILED;
    if (pl_context_create(&ctx, &options, &err) != PL_OK ||
        (err.status = pl_report_create(&report)) != PL_OK)
        fail(&r, &(pl_context_facts){0}, &(pl_stage_ns){0}, &err);
    else
        status = run_on(&r, &c, ctx, report);
    pl_report_destroy(report);
    pl_context_destroy(ctx);
    pl_case_fini(&c);
    return status;
}
