#ifndef PL_TESTS_PLAN_RUN_H
#define PL_TESTS_PLAN_RUN_H
/*
 * Runs a kernel body without the runtime: trace, check, plan, emit here, then the text through the emulated driver's own functions.
 * So a wrong result is the builder's, the plan's, the emitter's or the emulator's, and nothing cached is in between.
 */
#include "jit/emit.h"
#include "src/check/check.h"
#include "src/ir/ir.h"
#include "src/ir/print.h"
#include "src/ir/read.h"
#include "src/plan/plan.h"

#include <plaunch.h>

#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

struct build {
    struct pl_arena arena;
    struct pl_diags diags;
    struct pl_fn fn;
    struct pl_plan plan;
    struct pl_emitted out;
    pl_status status;
};

/* What a test asks for: a kernel with its params and arguments; facts are computed from the tensors where the kernel names them. */
struct ask {
    const pl_kernel *kernel;
    const void *params;
    size_t params_bytes; /* of *params; 0: as many as the kernel has */
    int arch;
    pl_arg args[PL_MAX_ARGS];
    uint32_t grid[3];
    pl_fact_set facts; /* offered; those that a tensor does not have are taken away */
};

static inline bool tensor_has(const pl_tensor *t, pl_fact fact)
{
    const int64_t bits = pl_dtype_bits(t->dtype);
    int64_t dense = 1;
    switch (fact) {
    case PL_FACT_ALIGN16:
    case PL_FACT_ALIGN16_OUT:
        for (int i = 0; i + 1 < t->rank; i++)
            if (t->strides[i] * bits % 128 != 0)
                return false;
        return t->address % 16 == 0;
    case PL_FACT_UNIT_STRIDE: return t->rank == 0 || t->strides[t->rank - 1] == 1;
    case PL_FACT_I32: return pl_tensor_n_elems(t) < (1 << 30);
    case PL_FACT_DENSE:
        for (int i = t->rank - 1; i >= 0; i--) {
            if (t->strides[i] != dense)
                return false;
            dense *= t->shape[i];
        }
        return true;
    case PL_FACT_WHOLE16: return t->rank == 0 || t->shape[t->rank - 1] * bits % 128 == 0;
    }
    return false;
}

static inline pl_fact_set facts_of(const pl_tensor *t, pl_fact_set offered)
{
    pl_fact_set have = 0;
    for (pl_fact_set f = 1; f <= offered; f <<= 1)
        if ((offered & f) != 0 && tensor_has(t, (pl_fact)f))
            have |= f;
    return have;
}

static inline void build_request(struct pl_trace_request *r, const struct ask *a)
{
    memset(r, 0, sizeof *r);
    r->kernel = a->kernel;
    r->n_args = a->kernel->n_params;
    r->target = pl_target_find(a->arch);
    if (a->params != NULL)
        memcpy(r->params, a->params,
               a->params_bytes != 0 ? a->params_bytes : a->kernel->params_bytes);
    for (size_t i = 0; i < r->n_args; i++) {
        struct pl_arg_facts *f = &r->args[i];
        const pl_tensor *t = &a->args[i].u.tensor;
        f->is_present = a->args[i].kind != PL_ARG_NONE;
        f->is_scalar = a->kernel->params[i].role == PL_ROLE_SCALAR;
        f->dtype = a->args[i].kind == PL_ARG_TENSOR ? t->dtype
                   : a->args[i].kind == PL_ARG_I32  ? PL_I32
                   : a->args[i].kind == PL_ARG_I64  ? PL_I64
                                                    : PL_F32;
        if (a->args[i].kind != PL_ARG_TENSOR)
            continue;
        f->rank = t->rank;
        f->facts = facts_of(t, a->facts);
        f->like = a->kernel->params[i].like;
        for (int d = 0; d < t->rank; d++)
            f->dims[d] = (a->kernel->params[i].baked_dims >> d & 1) != 0 ? t->shape[d] : -1;
    }
}

/* The facts that hold for all tensors are those of the variant. */
static inline void join_facts(struct pl_trace_request *r)
{
    pl_fact_set all = ~(pl_fact_set)0;
    for (size_t i = 0; i < r->n_args; i++)
        if (r->args[i].is_present && !r->args[i].is_scalar)
            all &= r->args[i].facts;
    for (size_t i = 0; i < r->n_args; i++)
        r->args[i].facts &= all;
}

static inline struct build *build_new(const struct ask *a, size_t limit_bytes)
{
    struct build *b = calloc(1, sizeof *b);
    struct pl_trace_request r;
    pl_arena_init(&b->arena, NULL, limit_bytes);
    pl_diags_init(&b->diags, &b->arena);
    build_request(&r, a);
    join_facts(&r);
    b->status = PL_E_INVALID;
    if (pl_fn_init(&b->fn, &b->arena, &b->diags, &r) && pl_trace_run(&b->fn) && pl_check(&b->fn)) {
        b->status = pl_plan_make(&b->fn, &b->arena, &b->diags, &b->plan);
        if (b->status == PL_OK)
            b->status = pl_emit_plan(&b->plan, "pl_test", 0, &b->arena, &b->diags, &b->out);
    } else if (pl_arena_is_exhausted(&b->arena)) {
        b->status = PL_E_NOMEM;
    }
    return b;
}

static inline void build_free(struct build *b)
{
    pl_arena_fini(&b->arena);
    free(b);
}

/* As build_new, and no failure is expected. */
static inline struct build *build_ok(const struct ask *a)
{
    struct build *b = build_new(a, 0);
    const struct pl_diag *d = b->diags.list.n != 0 ? b->diags.list.data : NULL;
    ck_assert_msg(b->status == PL_OK, "%s for sm_%d: status %d: PL%d %s (line %d)", a->kernel->name,
                  a->arch, (int)b->status, d == NULL ? 0 : d->info->code, d == NULL ? "" : d->text,
                  d == NULL ? 0 : d->where.line);
    struct pl_buf faults;
    pl_buf_init(&faults, &b->arena, 0);
    ck_assert_msg(pl_plan_verify(&b->plan, &faults), "%s for sm_%d: %s", a->kernel->name, a->arch,
                  faults.text);
    return b;
}

/* Trace and plan read back: what is read prints the same, and emits the same text. */
static inline void expect_read_back(struct build *b)
{
    struct pl_buf text, again;
    struct pl_fn fn;
    struct pl_ir_read_error trace_error;
    struct pl_plan plan;
    struct pl_plan_error error;
    struct pl_emitted out;
    pl_buf_init(&text, &b->arena, 0);
    pl_buf_init(&again, &b->arena, 0);
    pl_ir_print(&b->fn, &text);
    ck_assert_msg(pl_ir_read(&fn, &b->arena, &b->diags, "text", text.text, &trace_error),
                  "line %d: %s\n%s", trace_error.line, trace_error.text, text.text);
    pl_ir_print(&fn, &again);
    ck_assert_str_eq(text.text, again.text);
    pl_buf_init(&text, &b->arena, 0);
    pl_buf_init(&again, &b->arena, 0);
    pl_plan_print(&b->plan, &text);
    ck_assert_msg(pl_plan_read(text.text, text.n_bytes, &b->arena, &plan, &error), "line %u: %s",
                  error.line, error.text);
    pl_plan_print(&plan, &again);
    ck_assert_str_eq(text.text, again.text);
    ck_assert_int_eq(pl_emit_plan(&plan, "pl_test", 0, &b->arena, &b->diags, &out), PL_OK);
    ck_assert_str_eq(out.text, b->out.text);
}

/* ---- the emulated driver ---- */

typedef uint64_t devptr;
struct driver {
    void *lib;
    int arch;
    int (*Init)(unsigned);
    int (*CtxCreate)(void **, unsigned, int);
    int (*CtxDestroy)(void *);
    int (*ModuleLoadData)(void **, const void *);
    int (*ModuleUnload)(void *);
    int (*ModuleGetFunction)(void **, void *, const char *);
    int (*FuncSetAttribute)(void *, int, int);
    int (*MemAlloc)(devptr *, size_t);
    int (*MemFree)(devptr);
    int (*HtoD)(devptr, const void *, size_t);
    int (*DtoH)(void *, devptr, size_t);
    int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*Sync)(void);
    int (*Encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                  const uint32_t *, const uint32_t *, int, int, int, int);
    int (*configure)(const char *, const char *);
    size_t (*fault)(char *, size_t);
    char fault_text[4096];
    void *ctx;
};

static struct driver emu;

static inline void *symbol(const char *name)
{
    void *p = dlsym(emu.lib, name);
    ck_assert_msg(p != NULL, "the emulated driver has no %s", name);
    return p;
}

#define EMU_GET(field, name) *(void **)&emu.field = symbol(name)

static inline const char *last_fault(void)
{
    emu.fault(emu.fault_text, sizeof emu.fault_text);
    return emu.fault_text;
}

/* The driver with one device of this chip; another chip is another context after reconfiguration. */
static inline void driver_use(int arch, const char *async_policy)
{
    if (emu.lib == NULL) {
        const char *path = getenv("PLAUNCH_DRIVER");
        char built[1024];
        snprintf(built, sizeof built, "%s/emu/.libs/libplaunch-emu.so", PL_BUILDDIR);
        emu.lib = dlopen(path != NULL ? path : built, RTLD_NOW | RTLD_LOCAL);
        ck_assert_msg(emu.lib != NULL, "%s", dlerror());
        EMU_GET(Init, "cuInit");
        EMU_GET(CtxCreate, "cuCtxCreate_v2");
        EMU_GET(CtxDestroy, "cuCtxDestroy_v2");
        EMU_GET(ModuleLoadData, "cuModuleLoadData");
        EMU_GET(ModuleUnload, "cuModuleUnload");
        EMU_GET(ModuleGetFunction, "cuModuleGetFunction");
        EMU_GET(FuncSetAttribute, "cuFuncSetAttribute");
        EMU_GET(MemAlloc, "cuMemAlloc_v2");
        EMU_GET(MemFree, "cuMemFree_v2");
        EMU_GET(HtoD, "cuMemcpyHtoD_v2");
        EMU_GET(DtoH, "cuMemcpyDtoH_v2");
        EMU_GET(Launch, "cuLaunchKernel");
        EMU_GET(Sync, "cuCtxSynchronize");
        EMU_GET(Encode, "cuTensorMapEncodeTiled");
        EMU_GET(configure, "plaunch_emu_configure");
        EMU_GET(fault, "plaunch_emu_last_fault");
        /* One device of each chip: the ordinal chooses. */
        setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_89,sm_90a,sm_100a,sm_120a", 1);
        ck_assert_int_eq(emu.Init(0), 0);
    }
    ck_assert_int_eq(emu.configure("async", async_policy), 0);
    if (emu.arch == arch)
        return;
    if (emu.ctx != NULL)
        emu.CtxDestroy(emu.ctx);
    emu.arch = arch;
    const int device = arch < 89 ? 0 : arch < 90 ? 1 : arch < 100 ? 2 : arch < 120 ? 3 : 4;
    ck_assert_int_eq(emu.CtxCreate(&emu.ctx, 0, device), 0);
}

static inline pl_tensor tensor_new(pl_dtype t, pl_shape s, int64_t pitch_extra,
                                   int64_t offset_bytes)
{
    pl_tensor x = pl_tensor_make(0, t, s);
    for (int i = s.rank - 2; i >= 0; i--)
        x.strides[i] = x.strides[i + 1] * (s.d[i + 1] > 1 ? s.d[i + 1] : 1) +
                       (i == s.rank - 2 ? pitch_extra : 0);
    int64_t n = 1;
    for (int i = 0; i < s.rank; i++)
        n += (s.d[i] - 1) * x.strides[i];
    devptr p = 0;
    ck_assert_int_eq(emu.MemAlloc(&p, (size_t)(n * pl_dtype_bits(t) / 8 + offset_bytes)), 0);
    x.address = p + (devptr)offset_bytes;
    return x;
}

/* Bytes from the tensor's address to its last element's end. */
static inline size_t tensor_span(const pl_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n += (t->shape[i] - 1) * t->strides[i];
    return (size_t)(n * pl_dtype_bits(t->dtype) / 8);
}

static inline void encode_map(const struct pl_plan_map *m, const pl_tensor *t, void *image)
{
    static const int types[PL_DTYPE_COUNT] = {
        [PL_U8] = 0,  [PL_I8] = 0,  [PL_E4M3] = 0, [PL_E5M2] = 0, [PL_E8M0] = 0,  [PL_PRED] = 0,
        [PL_U16] = 1, [PL_I16] = 1, [PL_U32] = 2,  [PL_I32] = 3,  [PL_U64] = 4,   [PL_I64] = 5,
        [PL_F16] = 6, [PL_F32] = 7, [PL_F64] = 8,  [PL_BF16] = 9, [PL_TF32] = 11, [PL_E2M1] = 13};
    uint64_t dims[5], strides[5];
    uint32_t box[5], ones[5] = {1, 1, 1, 1, 1};
    for (int d = 0; d < m->rank; d++) {
        dims[d] = (uint64_t)t->shape[m->axes[d]];
        box[d] = m->box_elems[d];
        if (d > 0)
            strides[d - 1] = (uint64_t)(t->strides[m->axes[d]] * pl_dtype_bits(t->dtype) / 8);
    }
    int rc = emu.Encode(image, types[m->dtype], m->rank, (void *)(uintptr_t)t->address, dims,
                        strides, box, ones, 0, (int)m->swizzle, 2, m->fills_nan);
    ck_assert_msg(rc == 0, "encode: %d", rc);
}

/* Parameters as the plan lays them out. */
static inline void pack_params(const struct build *b, const struct ask *a, unsigned char *block,
                               void **params)
{
    for (uint32_t i = 0; i < b->plan.params.n; i++) {
        const struct pl_plan_param *p = &b->plan.params.data[i];
        const pl_arg *arg = &a->args[p->arg];
        int64_t v = 0;
        params[i] = block + p->offset_bytes;
        switch (p->kind) {
        case PL_PLAN_ADDRESS: v = (int64_t)arg->u.tensor.address; break;
        case PL_PLAN_EXTENT: v = arg->u.tensor.shape[p->axis]; break;
        case PL_PLAN_STRIDE: v = arg->u.tensor.strides[p->axis]; break;
        case PL_PLAN_SCALAR: v = arg->u.i64; break;
        case PL_PLAN_TENSOR_MAP:
            encode_map(&b->plan.maps.data[p->map], &a->args[b->plan.maps.data[p->map].arg].u.tensor,
                       block + p->offset_bytes);
            continue;
        case PL_PLAN_GRID:
        case PL_PLAN_WORKSPACE:
        case PL_PLAN_PARAM_KIND_COUNT: break;
        }
        memcpy(block + p->offset_bytes, &v, p->n_bytes);
    }
}

static inline void launch_ok(const struct build *b, const struct ask *a)
{
    _Alignas(128) unsigned char block[4096] = {0};
    void *params[PL_MAX_ARGS * 8], *module, *function;
    int rc = emu.ModuleLoadData(&module, b->out.text);
    if (rc != 0)
        puts(b->out.text);
    ck_assert_msg(rc == 0, "load: %d: %.900s", rc, last_fault());
    ck_assert_int_eq(emu.ModuleGetFunction(&function, module, "pl_test"), 0);
    if (b->plan.launch.smem_bytes > 0)
        ck_assert_int_eq(emu.FuncSetAttribute(function, 8, (int)b->plan.launch.smem_bytes), 0);
    pack_params(b, a, block, params);
    rc = emu.Launch(function, a->grid[0], a->grid[1], a->grid[2], b->plan.launch.n_threads, 1, 1,
                    b->plan.launch.smem_bytes, NULL, params, NULL);
    if (rc == 0)
        rc = emu.Sync();
    if (rc != 0)
        puts(b->out.text);
    ck_assert_msg(rc == 0, "%s for sm_%d: launch: %d: %.900s", a->kernel->name, a->arch, rc,
                  last_fault());
    emu.ModuleUnload(module);
}

static inline void run_ok(const struct ask *a)
{
    struct build *b = build_ok(a);
    expect_read_back(b);
    launch_ok(b, a);
    build_free(b);
}
#endif
