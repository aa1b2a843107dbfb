#include "jit/ptx/fragment.h"

#include "jit/ptx/gate.h"

#include <stdio.h>
#include <string.h>

/* The newest .version that the tables know: what the text really needs is asked of its instructions. */
enum { NEWEST_VERSION = 90 };

/* Reads the number after a $; the digits' count, 0 where none follow. */
static size_t operand_number(const char *s, uint32_t *number)
{
    size_t n = 0;
    *number = 0;
    while (s[n] >= '0' && s[n] <= '9' && n < 4)
        *number = *number * 10 + (uint32_t)(s[n++] - '0');
    return n;
}

static void print_body(struct pl_buf *buf, const struct pl_ptx_fragment *f)
{
    uint32_t number;
    for (const char *s = f->text; *s != '\0';) {
        const size_t n = *s == '$' ? operand_number(s + 1, &number) : 0;
        if (n != 0 && number < f->n_operands) {
            pl_ptx_print_reg(buf, f->operands[number]);
            s += n + 1;
        } else {
            pl_buf_putc(buf, *s);
            s += s[0] == '$' && s[1] == '$' ? 2 : 1;
        }
    }
}

void pl_ptx_fragment_print(struct pl_buf *buf, const struct pl_ptx_fragment *f)
{
    pl_buf_puts(buf, "{\n");
    print_body(buf, f);
    pl_buf_puts(buf, "\n}\n");
}

/* A function with the operands' registers, and the text in it from a line of its own on. */
static uint32_t print_module(struct pl_buf *buf, const struct pl_ptx_fragment *f, uint16_t sm)
{
    static const uint8_t types[] = {PL_PTX_TYPE_PRED, PL_PTX_TYPE_B16, PL_PTX_TYPE_B32,
                                    PL_PTX_TYPE_B64, PL_PTX_TYPE_B128};
    uint32_t line = 1;
    pl_ptx_print_header(buf, NEWEST_VERSION, sm, pl_ptx_target_bit(sm, 'a') != 0 ? 'a' : 0);
    pl_ptx_print_entry(buf, &(struct pl_ptx_entry){.name = "fragment"});
    for (size_t t = 0; t < sizeof types; t++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < f->n_operands; i++) {
            const uint32_t id = f->operands[i] - 1;
            if (id >> 24 == types[t] && (id & 0xffffff) >= n)
                n = (id & 0xffffff) + 1;
        }
        pl_ptx_print_regs(buf, (enum pl_ptx_type)types[t], n);
    }
    for (size_t i = 0; buf->text != NULL && i < buf->n_bytes; i++)
        line += buf->text[i] == '\n';
    print_body(buf, f);
    pl_buf_puts(buf, "\n");
    pl_ptx_print_end(buf);
    return line;
}

/* The line of the text, from 1, for one counted from 0; what is missing at its end is found behind it. */
static uint32_t line_of(const char *text, uint32_t line)
{
    uint32_t last = 0;
    for (const char *s = text; *s != '\0'; s++)
        last += s[0] == '\n' && s[1] != '\0';
    return 1 + (line < last ? line : last);
}

bool pl_ptx_fragment_gate(const struct pl_ptx_fragment *f, uint16_t sm, struct pl_arena *arena,
                          struct pl_ptx_gate *out, struct pl_ptx_error *error)
{
    struct pl_buf buf;
    struct pl_ptx_module module;
    *out = (struct pl_ptx_gate){0};
    *error = (struct pl_ptx_error){0};
    pl_buf_init(&buf, arena, strlen(f->text) + 512);
    const uint32_t first_line = print_module(&buf, f, sm);
    if (buf.text == NULL || !pl_ptx_parse(buf.text, buf.n_bytes, arena, &module, error)) {
        error->line = line_of(f->text, error->line - first_line);
        return false;
    }
    for (uint32_t i = 0; i < module.ins.n; i++) {
        const struct pl_ptx_ins *ins = &module.ins.data[i];
        if (!pl_ptx_gate_join(out, pl_ptx_gate_of_ins(ins, module.pool.data))) {
            error->line = line_of(f->text, ins->line - first_line);
            snprintf(error->text, sizeof error->text, "no target takes all of the instructions");
            return false;
        }
    }
    return true;
}
