/*
 * What compiled kernels call from the device runtime: CUDA C++ Programming Guide, "Formatted Output", "Assertion", "Dynamic
 * Global Memory Allocation and Operations".
 */
#include "emu/builtin.h"

#include "base/diag.h"
#include "emu/access.h"
#include "emu/device.h"
#include "emu/faults.h"
#include "emu/machine.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TEXT_BYTES = 1 << 16, MAX_STRING_BYTES = 1 << 14 };

/* ---- arguments --------------------------------------------------------------------------------------------------------------------------- */

static uint64_t read_arg(const struct pl_emu_warp *w, const struct pl_emu_call *c, uint32_t i,
                         uint32_t lane)
{
    const struct pl_emu_place *p = &c->args[i];
    const struct pl_emu_frame *f = w->group->frame;
    uint64_t v = 0;
    const uint8_t *from = p->is_reg
                              ? (p->bank == PL_EMU_BANK_FRAME ? f->regs : w->bank[p->bank]) +
                                    p->offset_bytes + lane * (p->bits / 8u)
                              : w->local + (size_t)lane * w->cta->cluster->local_stride_bytes +
                                    f->local_base_bytes + p->offset_bytes;
    uint32_t n = p->is_reg ? p->bits / 8u : p->n_bytes;
    memcpy(&v, from, n < 8 ? n : 8);
    return v;
}

static void write_result(struct pl_emu_warp *w, const struct pl_emu_call *c, uint32_t lane,
                         uint64_t v)
{
    if (c->n_returns == 0)
        return;
    const struct pl_emu_place *p = &c->returns[0];
    const struct pl_emu_frame *f = w->group->frame;
    uint8_t *to = p->is_reg ? f->regs + p->offset_bytes + lane * (p->bits / 8u)
                            : w->local + (size_t)lane * w->cta->cluster->local_stride_bytes +
                                  f->local_base_bytes + p->offset_bytes;
    uint32_t n = p->is_reg ? p->bits / 8u : p->n_bytes;
    memcpy(to, &v, n < 8 ? n : 8);
}

/* A NUL-terminated string of device memory, cut to n_bytes - 1. False: fault raised. */
static bool read_string(struct pl_emu_warp *w, uint32_t lane, uint64_t address, char *text,
                        size_t n_bytes)
{
    size_t n = 0;
    for (; n + 1 < n_bytes; n++) {
        const char *p = pl_emu_generic_at(w, lane, address + n, 1);
        if (p == NULL)
            return false;
        if (*p == 0)
            break;
        text[n] = *p;
    }
    text[n] = 0;
    return true;
}

/* ---- vprintf ------------------------------------------------------------------------------------------------------------------------------ */

struct output {
    char text[MAX_TEXT_BYTES];
    size_t n_bytes;
    uint32_t n_args;
};

static void put(struct output *o, const char *s, size_t n_bytes)
{
    size_t n = sizeof o->text - 1 - o->n_bytes;
    n = n_bytes < n ? n_bytes : n;
    memcpy(o->text + o->n_bytes, s, n);
    o->n_bytes += n;
}

/* One conversion: flags, width and precision of `spec` (from '%' to the letter), with the length replaced by ours. */
struct conversion {
    char head[32]; /* "%-08.3" */
    char letter;
    bool is_long;      /* 64-bit integer */
    uint32_t n_shorts; /* h: 1, hh: 2 */
};

static const char *parse_conversion(const char *p, struct conversion *c)
{
    size_t n = 0;
    c->head[n++] = '%';
    p++;
    while (*p != 0 && strchr("-+ #0123456789.", *p) != NULL) {
        if (n + 1 < sizeof c->head)
            c->head[n++] = *p;
        p++;
    }
    c->head[n] = 0;
    c->is_long = false;
    c->n_shorts = 0;
    while (*p != 0 && strchr("hlLqjzt", *p) != NULL) {
        c->is_long = c->is_long || *p != 'h';
        c->n_shorts += *p == 'h' ? 1 : 0;
        p++;
    }
    c->letter = *p;
    return *p == 0 ? p : p + 1;
}

/* Format with a format string that was assembled from checked parts. */
__attribute__((format(printf, 3, 0))) static int format(char *out, size_t n_bytes, const char *spec,
                                                        ...)
{
    __builtin_va_list ap;
    __builtin_va_start(ap, spec);
    int n = vsnprintf(out, n_bytes, spec, ap);
    __builtin_va_end(ap);
    return n;
}

static bool print_value(struct pl_emu_warp *w, uint32_t lane, const struct conversion *c,
                        uint64_t v, struct output *o)
{
    char out[MAX_STRING_BYTES + 64], spec[64], string[MAX_STRING_BYTES];
    int n = 0;
    if (strchr("diuxXo", c->letter) != NULL) {
        bool is_signed = c->letter == 'd' || c->letter == 'i';
        unsigned bits = c->is_long ? 64 : c->n_shorts == 0 ? 32 : c->n_shorts == 1 ? 16 : 8;
        uint64_t wide = v << (64 - bits) >> (64 - bits);
        if (is_signed)
            wide = (uint64_t)((int64_t)(v << (64 - bits)) >> (64 - bits));
        snprintf(spec, sizeof spec, "%sll%c", c->head, c->letter);
        n = format(out, sizeof out, spec, (unsigned long long)wide);
    } else if (strchr("eEfFgGaA", c->letter) != NULL) {
        double d;
        memcpy(&d, &v, sizeof d);
        snprintf(spec, sizeof spec, "%s%c", c->head, c->letter);
        n = format(out, sizeof out, spec, d);
    } else if (c->letter == 'c') {
        snprintf(spec, sizeof spec, "%sc", c->head);
        n = format(out, sizeof out, spec, (int)v);
    } else if (c->letter == 'p') {
        snprintf(spec, sizeof spec, "%sp", c->head);
        n = format(out, sizeof out, spec, (void *)(uintptr_t)v);
    } else if (c->letter == 's') {
        if (!read_string(w, lane, v, string, sizeof string))
            return false;
        snprintf(spec, sizeof spec, "%ss", c->head);
        n = format(out, sizeof out, spec, string);
    }
    if (n > 0)
        put(o, out, (size_t)n < sizeof out ? (size_t)n : sizeof out - 1);
    return true;
}

static bool takes_eight_bytes(const struct conversion *c)
{
    return c->is_long || strchr("eEfFgGaAps", c->letter) != NULL;
}

/* The argument block: each value at its natural alignment, 4 or 8 bytes. */
static bool print_lane(struct pl_emu_warp *w, uint32_t lane, const char *fmt, uint64_t list,
                       struct output *o)
{
    uint64_t at = 0;
    o->n_args = 0;
    while (*fmt != 0) {
        if (*fmt != '%') {
            const char *end = strchr(fmt, '%');
            size_t n = end != NULL ? (size_t)(end - fmt) : strlen(fmt);
            put(o, fmt, n);
            fmt += n;
            continue;
        }
        struct conversion c;
        fmt = parse_conversion(fmt, &c);
        if (c.letter == '%' || c.letter == 0) {
            put(o, "%", 1);
            continue;
        }
        uint32_t n = takes_eight_bytes(&c) ? 8 : 4;
        at = (at + n - 1) / n * n;
        const void *p = pl_emu_generic_at(w, lane, list + at, n);
        if (p == NULL)
            return false;
        uint64_t v = 0;
        memcpy(&v, p, n);
        at += n;
        o->n_args++;
        if (!print_value(w, lane, &c, v, o))
            return false;
    }
    return true;
}

/* int vprintf(const char *format, void *arguments): the result is the number of arguments that the format took, -1 without a
 * format. CUDA C++ Programming Guide, "Formatted Output". */
static enum pl_emu_status call_vprintf(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_call *c = ins->extra;
    struct pl_emu_device *dev = w->cta->cluster->grid->device;
    PL_EMU_FOR_LANES (lane, w->mask) {
        char fmt[MAX_STRING_BYTES];
        struct output o;
        o.n_bytes = 0;
        if (read_arg(w, c, 0, lane) == 0) {
            write_result(w, c, lane, UINT64_MAX);
            continue;
        }
        if (!read_string(w, lane, read_arg(w, c, 0, lane), fmt, sizeof fmt) ||
            !print_lane(w, lane, fmt, read_arg(w, c, 1, lane), &o))
            return PL_EMU_FAULT;
        o.text[o.n_bytes] = 0;
        if (dev->config.print != NULL) {
            pthread_mutex_lock(&dev->lock);
            dev->config.print(o.text, o.n_bytes, dev->config.print_user);
            pthread_mutex_unlock(&dev->lock);
        }
        write_result(w, c, lane, o.n_args);
    }
    return PL_EMU_NEXT;
}

/* ---- malloc, free ---------------------------------------------------------------------------------------------------------------------------- */

static enum pl_emu_status call_malloc(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_call *c = ins->extra;
    struct pl_emu_device *dev = w->cta->cluster->grid->device;
    uint64_t heap_bytes = w->cta->cluster->grid->heap_bytes;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t n = read_arg(w, c, 0, lane);
        pthread_mutex_lock(&dev->lock);
        bool fits =
            n != 0 && dev->heap_used_bytes <= heap_bytes && n <= heap_bytes - dev->heap_used_bytes;
        if (fits)
            dev->heap_used_bytes += n;
        pthread_mutex_unlock(&dev->lock);
        const struct pl_emu_allocation *a =
            fits ? pl_emu_memory_alloc(dev->memory, n, 16, "device malloc") : NULL;
        write_result(w, c, lane, a != NULL ? a->address : 0);
    }
    return PL_EMU_NEXT;
}

static enum pl_emu_status call_free(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_call *c = ins->extra;
    struct pl_emu_device *dev = w->cta->cluster->grid->device;
    PL_EMU_FOR_LANES (lane, w->mask) {
        uint64_t at = read_arg(w, c, 0, lane);
        const struct pl_emu_allocation *a = at != 0 ? pl_emu_memory_find(dev->memory, at) : NULL;
        if (at == 0)
            continue;
        if (a == NULL || a->address != at)
            return (enum pl_emu_status)pl_emu_fault_global(w, lane, at, 1, "free");
        pthread_mutex_lock(&dev->lock);
        dev->heap_used_bytes -=
            a->n_bytes < dev->heap_used_bytes ? a->n_bytes : dev->heap_used_bytes;
        pthread_mutex_unlock(&dev->lock);
        memset(w->last, 0, sizeof w->last);
        pl_emu_memory_free(dev->memory, at);
    }
    return PL_EMU_NEXT;
}

/* ---- __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t char_size) ------------- */

static enum pl_emu_status call_assertfail(struct pl_emu_warp *w, const struct pl_emu_ins *ins)
{
    const struct pl_emu_call *c = ins->extra;
    uint32_t lane = pl_emu_first_lane(w);
    char what[256], file[256], func[256];
    if (read_string(w, lane, read_arg(w, c, 0, lane), what, sizeof what) &&
        read_string(w, lane, read_arg(w, c, 1, lane), file, sizeof file) &&
        read_string(w, lane, read_arg(w, c, 3, lane), func, sizeof func))
        pl_d_emu_assert(pl_emu_faults(w, lane), pl_emu_where(w), what, file,
                        (unsigned)read_arg(w, c, 2, lane), func);
    return PL_EMU_FAULT;
}

pl_emu_builtin_fn *pl_emu_builtin_find(const char *name)
{
    static const struct {
        const char *name;
        pl_emu_builtin_fn *call;
    } all[] = {{"vprintf", call_vprintf},
               {"malloc", call_malloc},
               {"free", call_free},
               {"__assertfail", call_assertfail}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(name, all[i].name) == 0)
            return all[i].call;
    return NULL;
}
