/* Any bytes as a PTX module: the parser never crashes; what it takes prints to a text with as many instructions; what it refuses
 * has a place and a code. */
#include "base/buf.h"
#include "jit/ptx/print.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct pl_arena a;
    struct pl_ptx_module m, again;
    struct pl_ptx_error error;
    pl_arena_init(&a, NULL, 64 << 20);
    if (pl_ptx_parse((const char *)data, n_bytes, &a, &m, &error)) {
        struct pl_buf b;
        pl_buf_init(&b, &a, 4096);
        pl_ptx_print_module(&b, &m);
        bool is_printed = !pl_arena_is_exhausted(&a);
        if (is_printed && pl_ptx_parse(b.text, b.n_bytes, &a, &again, &error) &&
            m.ins.n != again.ins.n)
            abort();
    } else if (error.code == 0 || error.line == 0 || error.column == 0) {
        abort();
    }
    pl_arena_fini(&a);
    return 0;
}
