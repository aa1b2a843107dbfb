#ifndef PL_RUNTIME_ASK_H
#define PL_RUNTIME_ASK_H
/*
 * What a caller asks for, made checkable: a kernel, its arguments, the options, and what follows from them (facts,
 * configuration, grid). pl_launch, pl_prepare and pl_emit begin with one; none of it touches a device.
 */
#include "src/runtime/call.h"
#include "src/runtime/key.h"

struct pl_ask {
    pl_request request; /* what the kernel's functions see */
    pl_launch_options options;
    uint16_t ptx_cap; /* highest .version that the consumer takes */
    pl_arg args
        [PL_ARRANGE_MAX_ARGS]; /* what request.args is, where the caller's are completed or rearranged */
    bool is_nearest;           /* config and facts were changed to those of another built variant */
    _Alignas(16) unsigned char config[PL_MAX_PARAMS_BYTES];
};

/*
 * Check kernel, arguments and options, find the facts that hold, and choose the configuration.
 *
 *   options   may be NULL; device and ptx_cap are the consumer's
 *
 * Errors   PL60xx (arguments, all of them in the report), PL6110, PL6120, PL6121
 */
PL_MUST_CHECK pl_status pl_ask_make(struct pl_ask *ask, const pl_kernel *kernel, const pl_arg *args,
                                    size_t n_args, const pl_launch_options *options,
                                    const pl_device_info *device, struct pl_call *call);

/* The launch arguments against the kernel's parameters, arranged, and the facts that hold. Errors: PL60xx, all of them in the report. */
PL_MUST_CHECK pl_status pl_ask_check_args(struct pl_ask *ask, struct pl_call *call);

/* What matters to a build only, not to each launch: the name, part of an entry name, and the number of facts. Error: PL6120. */
PL_MUST_CHECK pl_status pl_ask_check_built(const struct pl_ask *ask, struct pl_call *call);

/* Run configure() for a configuration (or PL_CONFIG_BEST) into ask->config. False: it does not serve this request. */
bool pl_ask_configure(struct pl_ask *ask, int32_t config);

/* The index in 0..n_configs-1 whose parameters equal ask->config, or PL_CONFIG_BEST when none does. */
int32_t pl_ask_config_index(const struct pl_ask *ask);

/* The grid for a configuration; any extent below 1 means that there is nothing to do. */
pl_launch_dims pl_ask_dims(const struct pl_ask *ask, const void *config);

void pl_ask_key(const struct pl_ask *ask, struct pl_key *key);

static inline bool pl_dims_are_empty(const pl_launch_dims *d)
{
    return d->grid[0] < 1 || d->grid[1] < 1 || d->grid[2] < 1;
}

#endif
