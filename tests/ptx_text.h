#ifndef PL_TESTS_PTX_TEXT_H
#define PL_TESTS_PTX_TEXT_H
/* Modules around one instruction, and tables of instructions, for the tests of jit/ptx. */
#include "base/arena.h"
#include "base/buf.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Registers of every kind under the names that the tables use, and the instruction as the last statement. b128 registers exist
 * from .version 8.3 on. */
static inline const char *ptx_text_of(struct pl_arena *arena, uint16_t version, uint16_t sm,
                                      char suffix, const char *instruction)
{
    struct pl_buf b;
    pl_buf_init(&b, arena, 2048);
    pl_buf_printf(&b, ".version %u.%u\n.target sm_%u%c", version / 10u, version % 10u, sm,
                  suffix != 0 ? suffix : ' ');
    pl_buf_puts(
        &b,
        "\n.address_size 64\n"
        ".extern .func (.param .b32 z) ext (.param .b64 x, .param .b32 y);\n"
        ".visible .entry k(.param .align 64 .b8 tm[128], .param .u64 P, .param .u32 Q)\n{\n"
        ".shared .align 1024 .b8 buf[2048]; .local .align 4 .b8 loc[16];\n"
        ".reg .pred p, q, z; .reg .b8 b<4>; .reg .b16 h<10>; .reg .b32 r<260>, a, m, c, n, ta, w;\n"
        ".reg .b64 d<8>, t, g, pol, v; .reg .f32 f<260>; .reg .f64 e<20>;\n");
    if (version >= 83)
        pl_buf_puts(&b, ".reg .b128 x<4>;\n");
    pl_buf_puts(&b, ".param .b64 arg0; .param .b32 arg1; .param .b32 ret0;\n"
                    "LIST: .branchtargets L0, L1;\nL0:\n");
    pl_buf_puts(&b, instruction);
    pl_buf_puts(&b, "\nL1: ret;\n}\n");
    return b.text;
}

enum { PTX_COLUMNS = 5 };

struct ptx_lines {
    const char *(*columns)[PTX_COLUMNS];
    size_t n;
};

/* The rows of a table in the source tree: columns between tabs, '#' begins a comment line. */
static inline struct ptx_lines ptx_read_lines(struct pl_arena *arena, const char *path)
{
    struct ptx_lines lines = {0};
    char name[512];
    snprintf(name, sizeof name, "%s/%s", PL_SRCDIR, path);
    FILE *f = fopen(name, "rb");
    ck_assert_msg(f != NULL, "%s is not there", name);
    size_t cap = 2000;
    lines.columns = pl_arena_array(arena, cap, sizeof *lines.columns);
    char line[8192];
    while (fgets(line, sizeof line, f) != NULL && lines.n < cap) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#' || line[0] == 0)
            continue;
        char *s = pl_arena_strdup(arena, line);
        for (int i = 0; i < PTX_COLUMNS; i++) {
            lines.columns[lines.n][i] = s;
            char *tab = strchr(s, '\t');
            if (tab == NULL)
                s += strlen(s);
            else {
                *tab = 0;
                s = tab + 1;
            }
        }
        lines.n++;
    }
    fclose(f);
    return lines;
}
#endif
