/*
 * PTX of a race case. Each thread of a script is a warp; what one thread of a warp does (copies, arrivals, matrix instructions) lane 0
 * does, and bar.warp.sync stands between the statements, so that the warp acts as one. Before the threads begin, everything is
 * initialised and published; at the end all meet.
 */
#include "tests/race_script.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE_BYTES = 4096, N_TILES = 4, COPY_BYTES = 128, N_BARS = 64, T_COLUMNS = 16 };
enum { MAX_PARTS = 400, WARP_B = 4, WARP_D = 8, WARP_E = 12, MIN_TENSOR_WARPS = 4 };

static struct {
    struct race_program *out;
    size_t n;
    const char *options;
    bool has_tensor, has_fences, has_failed;
    char bars[N_BARS][8]; /* names, by index */
    uint32_t counts[N_BARS], n_bars;
    uint32_t n_waits[N_BARS]; /* of the thread that is printed */
    uint32_t n_labels, n_sets, rank, warp;
} g;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(g.out->text + g.n, sizeof g.out->text - g.n, format, args);
    va_end(args);
    g.n += n > 0 && (size_t)n < sizeof g.out->text - g.n ? (size_t)n : 0;
}

/* ---- names ----------------------------------------------------------------------------------------------------------- */

static uint32_t bar_of(const char *name)
{
    for (uint32_t i = 0; i < g.n_bars; i++)
        if (strcmp(g.bars[i], name) == 0)
            return i;
    snprintf(g.bars[g.n_bars], sizeof g.bars[0], "%s", name);
    g.counts[g.n_bars] = 1;
    return g.n_bars++;
}

static uint32_t tile_of(const char *name) { return (uint32_t)atoi(name + 1); }

/* "2=x? 1=s? rest": NULL where an option is not as it says, else the rest. */
static char *if_chosen(char *s)
{
    for (s += strspn(s, " "); s[0] != '\0' && s[1] == '=' && s[3] == '?'; s += strspn(s, " ")) {
        if (g.options[s[0] - '0'] != s[2])
            return NULL;
        s += 4;
    }
    return s;
}

/* ---- statements ---------------------------------------------------------------------------------------------------------- */

static void put_wait(const char *name, const char *sem)
{
    uint32_t i = bar_of(name), label = g.n_labels++;
    put("W%u:\n mbarrier.try_wait.parity.%s.cluster.shared::cta.b64 %%p1, [bars+%u], %u;\n"
        " @!%%p1 bra W%u;\n",
        label, sem, 8 * i, g.n_waits[i]++ & 1, label);
    if (g.has_fences)
        put(" tcgen05.fence::after_thread_sync;\n");
}

static void put_arrive(const char *verb, const char *name)
{
    uint32_t at = 8 * bar_of(name);
    if (g.has_fences)
        put(" tcgen05.fence::before_thread_sync;\n");
    if (strchr(verb, '@') == NULL) {
        put(" @%%p0 mbarrier.arrive.shared::cta.b64 _, [bars+%u];\n", at);
        return;
    }
    put(" mov.u32 %%r1, bars;\n add.u32 %%r1, %%r1, %u;\n mapa.shared::cluster.u32 %%r1, %%r1, "
        "%s;\n"
        " @%%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%%r1];\n",
        at, strchr(verb, '@') + 1);
}

static void put_load(const char *s, const char *d, const char *bar)
{
    uint32_t at = 8 * bar_of(bar);
    put(" @%%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars+%u], %d;\n"
        " @%%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tiles+%u], "
        "[%%rd1+%u], %d, [bars+%u];\n",
        at, COPY_BYTES, tile_of(s) * TILE_BYTES, tile_of(d) * COPY_BYTES, COPY_BYTES, at);
}

static void put_store(const char *s, const char *d)
{
    put(" @%%p0 cp.async.bulk.global.shared::cta.bulk_group [%%rd1+%u], [tiles+%u], %d;\n"
        " @%%p0 cp.async.bulk.commit_group;\n",
        tile_of(d) * COPY_BYTES, tile_of(s) * TILE_BYTES, COPY_BYTES);
}

/* Descriptor of a tile without swizzle: 8 rows of 16 bytes, 128 bytes to the next along k, 256 to the next eight rows. */
static void put_descriptor(int reg, const char *s)
{
    put(" mov.u32 %%r1, tiles;\n add.u32 %%r1, %%r1, %u;\n and.b32 %%r1, %%r1, 0x3ffff;\n"
        " shr.u32 %%r1, %%r1, 4;\n cvt.u64.u32 %%rd%d, %%r1;\n or.b64 %%rd%d, %%rd%d, %llu;\n",
        tile_of(s) * TILE_BYTES, reg, reg, reg, 8ull << 16 | 16ull << 32 | 1ull << 46);
}

static void put_mma(bool is_ta, char *const arg[4])
{
    enum { IDESC = 1 << 4 | 2 << 17 | 8 << 24 }; /* f16 to f32, N = 16, M = 128 */
    put(" setp.ne.u32 %%p2, %s, 0;\n add.u32 %%r3, %%tmem, %u;\n", arg[3],
        tile_of(arg[0]) * T_COLUMNS);
    if (is_ta)
        put(" add.u32 %%r4, %%tmem, %u;\n", tile_of(arg[1]) * T_COLUMNS);
    else
        put_descriptor(2, arg[1]);
    put_descriptor(3, arg[2]);
    put(" @%%p0 tcgen05.mma.cta_group::1.kind::f16 [%%r3], %s, %%rd3, %d, %%p2;\n",
        is_ta ? "[%r4]" : "%rd2", (int)IDESC);
}

/* Two sets, in turn: a load may not name registers that one before it has not filled. */
static void put_registers(void)
{
    const int first = g.n_sets++ % 2 * T_COLUMNS;
    for (int i = 0; i < T_COLUMNS; i++)
        put("%s%%f%d", i == 0 ? "{" : ", ", first + i);
    put("}");
}

static void put_tensor(bool is_store, const char *t)
{
    put(" add.u32 %%r3, %%tmem, %u;\n", (g.warp % 4) * 32 << 16 | tile_of(t) * T_COLUMNS);
    put(" tcgen05.%s.sync.aligned.32x32b.x16.b32 ", is_store ? "st" : "ld");
    if (is_store) {
        put("[%%r3], ");
        put_registers();
    } else {
        put_registers();
        put(", [%%r3]");
    }
    put(";\n");
}

static bool put_tensor_statement(const char *verb, char *const arg[4])
{
    if (strcmp(verb, "st") == 0 || strcmp(verb, "ld") == 0)
        put_tensor(verb[0] == 's', arg[0]);
    else if (strcmp(verb, "waitst") == 0 || strcmp(verb, "waitld") == 0)
        put(" tcgen05.wait::%s.sync.aligned;\n", verb + 4);
    else if (strcmp(verb, "mma") == 0 || strcmp(verb, "mmat") == 0)
        put_mma(verb[3] == 't', arg);
    else if (strcmp(verb, "commit") == 0)
        put(" @%%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
            "[bars+%u];\n",
            8 * bar_of(arg[0]));
    else if (strcmp(verb, "cp") == 0) {
        put_descriptor(2, arg[0]);
        put(" add.u32 %%r3, %%tmem, %u;\n @%%p0 tcgen05.cp.cta_group::1.128x256b [%%r3], %%rd2;\n",
            tile_of(arg[1]) * T_COLUMNS);
    } else if (strcmp(verb, "alloc") == 0)
        put(" tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots+4], 32;\n");
    else if (strcmp(verb, "free") == 0)
        put(" ld.shared.b32 %%r1, [slots+4];\n"
            " tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%r1, 32;\n");
    else if (strcmp(verb, "use") == 0)
        put(" st.global.b32 [%%rd4+256], %%f%d;\n", (g.n_sets - 1) % 2 * T_COLUMNS);
    else if (strcmp(verb, "before") == 0 || strcmp(verb, "after") == 0)
        put(" tcgen05.fence::%s_thread_sync;\n", verb);
    else
        return false;
    return true;
}

/* Accesses of all lanes, 4 bytes each. */
static bool put_access(const char *verb, const char *name)
{
    bool is_global = verb[2] == 'g';
    char at[48];
    if (is_global)
        snprintf(at, sizeof at, "[%%rd4+%u]", tile_of(name) * COPY_BYTES);
    else
        snprintf(at, sizeof at, "[%%r5+%u]", tile_of(name) * TILE_BYTES);
    if (strncmp(verb, "wr", 2) == 0)
        put(" %sst.%s.b32 %s, %%r6;\n", verb[2] == 'l' ? "@%p0 " : "",
            is_global ? "global" : "shared", at);
    else if (strncmp(verb, "rd", 2) == 0)
        put(" ld.%s.b32 %%r7, %s;\n", is_global ? "global" : "shared", at);
    else if (strcmp(verb, "inc") == 0)
        put(" ld.shared.b32 %%r7, %s;\n add.u32 %%r7, %%r7, 1;\n st.shared.b32 %s, %%r7;\n", at,
            at);
    else
        return false;
    return true;
}

static bool put_copy(const char *verb, char *const arg[4])
{
    if (strcmp(verb, "load") == 0)
        put_load(arg[0], arg[1], arg[2]);
    else if (strcmp(verb, "store") == 0)
        put_store(arg[0], arg[1]);
    else if (strcmp(verb, "wg") == 0 || strcmp(verb, "wgr") == 0)
        put(" @%%p0 cp.async.bulk.wait_group%s %s;\n", verb[2] == 'r' ? ".read" : "", arg[0]);
    else if (strcmp(verb, "cpa") == 0)
        put(" cp.async.ca.shared.global [%%r5+%u], [%%rd4+%u], 4;\n", tile_of(arg[0]) * TILE_BYTES,
            tile_of(arg[1]) * COPY_BYTES);
    else if (strcmp(verb, "cpw") == 0)
        put(" cp.async.wait_all;\n");
    else
        return false;
    return true;
}

static void put_statement(char *s, bool is_first)
{
    static char none[1];
    char *arg[4] = {none, none, none, none}, *save = NULL, *verb = strtok_r(s, " ", &save);
    bool is_one = verb != NULL && strcmp(verb, "one") == 0;
    if (is_one)
        verb = strtok_r(NULL, " ", &save);
    if (verb == NULL)
        return;
    for (int i = 0; i < 4; i++) {
        char *a = strtok_r(NULL, " ", &save);
        arg[i] = a != NULL ? a : arg[i];
    }
    if (!is_first && !is_one)
        put(" bar.warp.sync -1;\n");
    if (strcmp(verb, "inits") == 0)
        put(" @%%p0 mbarrier.init.shared::cta.b64 [bars+%u], 1;\n", 8 * bar_of(arg[0]));
    else if (strcmp(verb, "wait") == 0)
        put_wait(arg[0], "acquire");
    else if (strcmp(verb, "hear") == 0)
        put_wait(arg[0], "relaxed");
    else if (strcmp(verb, "tell") == 0)
        put(" @%%p0 mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [bars+%u];\n",
            8 * bar_of(arg[0]));
    else if (strcmp(verb, "rel") == 0 || strcmp(verb, "acq") == 0)
        put(" fence.%s.cluster;\n", verb[0] == 'r' ? "release.sync_restrict::shared::cta"
                                                   : "acquire.sync_restrict::shared::cluster");
    else if (strcmp(verb, "full") == 0)
        put(" fence.acq_rel.cluster;\n");
    else if (strncmp(verb, "arrive", 6) == 0)
        put_arrive(verb, arg[0]);
    else if (strcmp(verb, "fence") == 0 || strcmp(verb, "fenceg") == 0)
        put(" fence.proxy.async.%s;\n", verb[5] == 'g' ? "global" : "shared::cta");
    else if (!put_copy(verb, arg) && !put_tensor_statement(verb, arg) && !put_access(verb, arg[0]))
        g.has_failed = true;
}

/* ---- threads --------------------------------------------------------------------------------------------------------------- */

/* "one" stands alone before the statement that it is for: join the two. Returns the statements of a thread. */
static uint32_t split(char *text, char *parts[MAX_PARTS])
{
    uint32_t n = 0;
    char *save = NULL;
    bool is_one = false;
    for (char *s = strtok_r(text, ";", &save); s != NULL && n < MAX_PARTS;
         s = strtok_r(NULL, ";", &save)) {
        s = if_chosen(s);
        if (s == NULL)
            continue;
        if (strcmp(s, "one") == 0) {
            is_one = true;
            continue;
        }
        static char joined[16][64];
        static uint32_t n_joined;
        if (is_one) {
            char *to = joined[n_joined++ % 16];
            snprintf(to, sizeof joined[0], "one %s", s);
            s = to;
        }
        is_one = false;
        parts[n++] = s;
    }
    return n;
}

/* "1.A" or "A". */
static void place_thread(const char *name)
{
    static const uint32_t far[] = {0, WARP_B, 0, WARP_D, WARP_E}, near[] = {0, 1, 0, 2, 3};
    const char *dot = strchr(name, '.');
    bool is_near = g.options[0] == 'w';
    g.rank = dot != NULL ? (uint32_t)atoi(name) : 0;
    char letter = dot != NULL ? dot[1] : name[0];
    g.warp = letter >= '0' && letter <= '9' ? (uint32_t)(letter - '0')
                                            : (is_near ? near : far)[(letter - 'A') % 5];
    if (g.warp + 1 > g.out->n_warps)
        g.out->n_warps = g.warp + 1;
    if (g.rank + 1 > g.out->n_ctas)
        g.out->n_ctas = g.rank + 1;
}

static void put_thread(char *text)
{
    char *parts[MAX_PARTS], *colon = strchr(text, ':');
    if (colon == NULL) {
        g.has_failed = true;
        return;
    }
    *colon = '\0';
    text += strspn(text, " ");
    place_thread(text);
    memset(g.n_waits, 0, sizeof g.n_waits);
    uint32_t label = g.n_labels++, n = split(colon + 1, parts);
    put(" setp.ne.u32 %%p1, %%id, %u;\n @%%p1 bra N%u;\n", g.rank * 32 + g.warp, label);
    for (uint32_t i = 0; i < n; i++)
        put_statement(parts[i], i == 0);
    put(" bra END;\nN%u:\n", label);
}

/* ---- the frame --------------------------------------------------------------------------------------------------------------- */

static void put_head(void)
{
    put(".version 8.7\n.target sm_100a\n.address_size 64\n"
        ".visible .entry race(.param .u64 g)\n{\n"
        " .reg .pred %%p<4>;\n .reg .b32 %%r<16>, %%f<%d>, %%id, %%tmem;\n .reg .b64 %%rd<8>;\n"
        " .shared .align 1024 .b8 tiles[%d];\n .shared .align 8 .b64 bars[%d];\n"
        " .shared .align 8 .b32 slots[2];\n",
        2 * T_COLUMNS, N_TILES * TILE_BYTES, N_BARS);
    put(" ld.param.u64 %%rd1, [g];\n mov.u32 %%r1, %%tid.x;\n and.b32 %%r2, %%r1, 31;\n"
        " setp.eq.u32 %%p0, %%r2, 0;\n shr.u32 %%r8, %%r1, 5;\n mov.u32 %%r9, %%cluster_ctarank;\n"
        " mad.lo.u32 %%id, %%r9, 32, %%r8;\n mul.wide.u32 %%rd4, %%r2, 4;\n"
        " add.u64 %%rd4, %%rd4, %%rd1;\n mov.u32 %%r5, tiles;\n mad.lo.u32 %%r5, %%r2, 4, %%r5;\n"
        " mov.u32 %%r6, %%r1;\n mov.u32 %%tmem, 0;\n");
}

/* All tiles written and published by warp 0, all barriers initialised; printed when their counts are known. */
static void put_start(void)
{
    put("INIT:\n setp.ne.u32 %%p1, %%r8, 0;\n @%%p1 bra READY;\n"
        " mov.u32 %%r10, tiles;\n mad.lo.u32 %%r10, %%r2, 16, %%r10;\n mov.u32 %%r11, 0;\n"
        "FILL:\n st.shared.v4.b32 [%%r10], {%%r11, %%r11, %%r11, %%r11};\n"
        " add.u32 %%r10, %%r10, 512;\n add.u32 %%r11, %%r11, 1;\n setp.lt.u32 %%p1, %%r11, %d;\n"
        " @%%p1 bra FILL;\n fence.proxy.async.shared::cta;\n",
        N_TILES * TILE_BYTES / 512);
    for (uint32_t i = 0; i < g.n_bars; i++)
        if (strcmp(g.bars[i], "Z") != 0)
            put(" @%%p0 mbarrier.init.shared::cta.b64 [bars+%u], %u;\n", 8 * i, g.counts[i]);
    put(" @%%p0 fence.mbarrier_init.release.cluster;\n");
    if (g.has_tensor)
        put(" tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots], 128;\n");
    put("READY:\n bar.sync 0;\n");
    if (g.has_tensor) {
        put(" ld.shared.b32 %%tmem, [slots];\n setp.ge.u32 %%p1, %%r8, 4;\n @%%p1 bra ZEROED;\n"
            " shl.b32 %%r10, %%r8, 21;\n add.u32 %%r10, %%r10, %%tmem;\n");
        for (int t = 0; t < 5; t++) {
            put(" tcgen05.st.sync.aligned.32x32b.x16.b32 [%%r10+%d], ", t * T_COLUMNS);
            put_registers();
            put(";\n");
        }
        put(" tcgen05.wait::st.sync.aligned;\nZEROED:\n tcgen05.fence::before_thread_sync;\n"
            " bar.sync 0;\n tcgen05.fence::after_thread_sync;\n");
    }
    put(" barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;\n bra START;\n");
}

static void put_end(void)
{
    put("END:\n bar.warp.sync -1;\n");
    if (g.has_tensor)
        put(" tcgen05.fence::before_thread_sync;\n");
    put(" bar.sync 0;\n barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;\n");
    if (g.has_tensor)
        put(" setp.ne.u32 %%p1, %%r8, 0;\n @%%p1 bra DONE;\n"
            " tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%tmem, 128;\nDONE:\n");
    put(" ret;\n");
}

/* "M*2" and "0=0?M*2" before the first thread. */
static char *take_counts(char *script)
{
    for (;;) {
        script += strspn(script, " ");
        size_t n = strcspn(script, " ");
        char *star = memchr(script, '*', n), *word = script;
        if (star == NULL)
            return script;
        script[n] = '\0';
        script += n + 1;
        word = if_chosen(word);
        if (word == NULL)
            continue;
        *star = '\0';
        uint32_t i = bar_of(word);
        g.counts[i] = (uint32_t)atoi(star + 1);
    }
}

static bool uses_tensor(const char *family, const char *script)
{
    return family[0] == 'B' || strstr(script, " T0") != NULL || strstr(script, "mma") != NULL;
}

bool race_script_print(const char *family, const char *script, const char *options,
                       struct race_program *out)
{
    char *copy = strdup(script), *save = NULL;
    memset(&g, 0, sizeof g);
    g.out = out;
    g.options = options;
    g.has_tensor = uses_tensor(family, script);
    g.has_fences = g.has_tensor && family[0] != 'G';
    *out = (struct race_program){.n_warps = 1, .n_ctas = 1};
    put_head();
    put(" bra INIT;\nSTART:\n");
    char *threads = take_counts(copy);
    for (char *t = strtok_r(threads, "|", &save); t != NULL; t = strtok_r(NULL, "|", &save))
        put_thread(t);
    put_end();
    put_start();
    put("}\n");
    if (g.has_tensor && out->n_warps < MIN_TENSOR_WARPS)
        out->n_warps = MIN_TENSOR_WARPS;
    free(copy);
    return !g.has_failed;
}
