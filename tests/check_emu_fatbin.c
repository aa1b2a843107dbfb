/*
 * Fat binaries of the emulated driver: which member it takes, how it unpacks it, and what it says of those it cannot use. The
 * files are made here, byte by byte; tests/emu_program.sh does the same with nvcc's own.
 */
#include "tests/emu_driver.h"

enum {
    KIND_PTX = 1,
    KIND_CODE = 2,
    LZ4 = 0x2000,
    ZSTD = 0x8000,
    ARCH_A = 0x100000,
    ARCH_F = 0x200000
};

static uint8_t fat[1 << 16];
static size_t n_fat;

static void put(size_t at, size_t n_bytes, uint64_t v)
{
    for (size_t i = 0; i < n_bytes; i++)
        fat[at + i] = (uint8_t)(v >> 8 * i);
}

static void begin_fat(void)
{
    memset(fat, 0, sizeof fat);
    put(0, 4, 0xba55ed50);
    put(4, 2, 1);
    put(6, 2, 16);
    n_fat = 16;
}

static void add_member(uint16_t kind, uint32_t sm, uint64_t flags, const void *data, size_t n_bytes,
                       size_t n_text_bytes)
{
    size_t n_padded = (n_bytes + 8) & ~(size_t)7;
    put(n_fat, 2, kind);
    put(n_fat + 2, 2, 0x101);
    put(n_fat + 4, 4, 64);
    put(n_fat + 8, 8, n_padded);
    put(n_fat + 28, 4, sm);
    put(n_fat + 40, 8, flags | 0x11);
    if ((flags & (LZ4 | ZSTD)) != 0) {
        put(n_fat + 16, 4, n_bytes);
        put(n_fat + 56, 8, n_text_bytes);
    }
    memcpy(fat + n_fat + 64, data, n_bytes);
    n_fat += 64 + n_padded;
    put(8, 8, n_fat - 16);
}

/* A kernel whose name tells the member. */
static const char *text_named(const char *name, const char *target)
{
    static char text[400];
    snprintf(text, sizeof text,
             ".version 8.8\n.target %s\n.address_size 64\n.visible .entry %s()\n{\n    ret;\n}\n",
             target, name);
    return text;
}

static void add_text(const char *name, uint32_t sm, uint64_t flags, const char *target)
{
    const char *text = text_named(name, target);
    add_member(KIND_PTX, sm, flags, text, strlen(text), 0);
}

static CUresult load(const void *image, CUmodule *m)
{
    CUcontext ctx;
    ok(cu.cuInit(0));
    ok(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
    ok(cu.cuCtxSetCurrent(ctx));
    return cu.cuModuleLoadData(m, image);
}

static void takes(const char *arch, const char *name)
{
    CUmodule m;
    CUfunction f;
    ck_assert_int_eq(cu.configure("reset", "1"), 0);
    ck_assert_int_eq(cu.configure("arch", arch), 0);
    ok(load(fat, &m));
    ck_assert_msg(cu.cuModuleGetFunction(&f, m, name) == CUDA_SUCCESS, "%s takes not %s", arch,
                  name);
}

static void refuses(const void *image, CUresult code, const char *words)
{
    CUmodule m;
    char fault[1000];
    ck_assert_int_eq(load(image, &m), code);
    cu.last_fault(fault, sizeof fault);
    ck_assert_msg(strstr(fault, words) != NULL, "%s: no %s", fault, words);
}

START_TEST(best_member_is_taken)
{
    begin_fat();
    add_text("k75", 75, 0, "sm_75");
    add_member(KIND_CODE, 90, 0,
               "\x7f"
               "ELF",
               4, 0);
    add_text("k90a", 90, ARCH_A, "sm_90a");
    add_text("k90", 90, 0, "sm_90");
    add_text("k100f", 100, ARCH_F, "sm_100f");
    add_text("k120", 120, 0, "sm_120");
    takes("sm_80", "k75");
    takes("sm_90a", "k90a");
    takes("sm_100a", "k100f");
    takes("sm_103a", "k100f");
    takes("sm_120a", "k120");
}
END_TEST

START_TEST(wrapper_leads_to_its_binary)
{
    struct {
        uint32_t magic, version;
        const void *data;
        void *unused;
    } wrapper = {0x466243b1, 1, fat, NULL};
    CUmodule m;
    CUfunction f;
    CUlibrary lib;
    CUkernel k;
    begin_fat();
    add_text("k80", 80, 0, "sm_80");
    ok(load(&wrapper, &m));
    ok(cu.cuModuleGetFunction(&f, m, "k80"));
    ok(cu.cuModuleLoadFatBinary(&m, &wrapper));
    ok(cu.cuLibraryLoadData(&lib, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
    memset(fat, 0, sizeof fat); /* a library keeps what it needs */
    ok(cu.cuLibraryGetKernel(&k, lib, "k80"));
    ok(cu.cuKernelGetFunction(&f, k));
}
END_TEST

START_TEST(link_takes_the_text)
{
    CUlinkState link;
    CUmodule m;
    CUfunction f;
    void *out;
    size_t n_bytes;
    begin_fat();
    add_text("k80", 80, 0, "sm_80");
    ok(load(fat, &m));
    ok(cu.cuLinkCreate_v2(0, NULL, NULL, &link));
    gives(cu.cuLinkAddData_v2(link, CU_JIT_INPUT_FATBINARY, fat, n_fat - 1, "", 0, NULL, NULL),
          INVALID_IMAGE);
    ok(cu.cuLinkAddData_v2(link, CU_JIT_INPUT_FATBINARY, fat, n_fat, "", 0, NULL, NULL));
    ok(cu.cuLinkComplete(link, &out, &n_bytes));
    ok(cu.cuModuleLoadData(&m, out));
    ok(cu.cuModuleGetFunction(&f, m, "k80"));
}
END_TEST

START_TEST(file_is_read_whole)
{
    char path[] = "/tmp/plaunch-fatbin-XXXXXX";
    CUmodule m;
    CUfunction f;
    begin_fat();
    add_text("k80", 80, 0, "sm_80");
    ok(load(fat, &m));
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    FILE *file = fdopen(fd, "wb");
    ck_assert_uint_eq(fwrite(fat, 1, n_fat - 8, file), n_fat - 8);
    fflush(file);
    gives(cu.cuModuleLoad(&m, path), INVALID_IMAGE); /* cut off */
    ck_assert_uint_eq(fwrite(fat + n_fat - 8, 1, 8, file), 8);
    fclose(file);
    ok(cu.cuModuleLoad(&m, path));
    ok(cu.cuModuleGetFunction(&f, m, "k80"));
    remove(path);
}
END_TEST

/* ---- compression --------------------------------------------------------------------------------------------------- */

/* LZ4 of one sequence (all but the last 5 bytes, then a match), then literals: spaces that a match of distance 1 repeats. */
static size_t lz4_of(const char *text, size_t n_spaces, uint8_t *out)
{
    size_t n = strlen(text), n_out = 0, rest = n_spaces - 5 - 4 - 15;
    out[n_out++] = 0xff;
    for (n -= 14; n >= 255; n -= 255) /* the literals are the text and one space */
        out[n_out++] = 255;
    out[n_out++] = (uint8_t)n;
    n_out += (size_t)sprintf((char *)out + n_out, "%s ", text);
    out[n_out++] = 1, out[n_out++] = 0;
    for (rest -= 1; rest >= 255; rest -= 255)
        out[n_out++] = 255;
    out[n_out++] = (uint8_t)rest;
    out[n_out++] = 5 << 4;
    memset(out + n_out, ' ', 5);
    return n_out + 5;
}

START_TEST(lz4_is_expanded)
{
    static uint8_t packed[2000];
    const char *text = text_named("packed", "sm_80");
    size_t n_spaces = 300 + 97 * (size_t)_i, n = lz4_of(text, n_spaces, packed);
    CUmodule m;
    begin_fat();
    add_member(KIND_PTX, 80, LZ4, packed, n, strlen(text) + n_spaces);
    takes("sm_90a", "packed");
    put(16 + 56, 8, strlen(text) + n_spaces + 1); /* another length than the stream has */
    refuses(fat, CUDA_ERROR_INVALID_IMAGE, "PL8413");
    put(16 + 56, 8, strlen(text) + n_spaces - 1);
    refuses(fat, CUDA_ERROR_INVALID_IMAGE, "PL8413");
    put(16 + 56, 8, strlen(text) + n_spaces);
    for (size_t i = 0; i < n; i++) { /* no length of the stream leads out of it */
        put(16 + 16, 4, i);
        ck_assert_int_ne(load(fat, &m), CUDA_SUCCESS);
    }
}
END_TEST

/* A frame with one raw block: RFC 8878, 3.1.1. */
START_TEST(zstd_is_expanded)
{
    uint8_t frame[500] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0};
    const char *text = text_named("packed", "sm_80");
    size_t n = strlen(text);
    uint32_t block = 1 | (uint32_t)n << 3;
    void *zstd = dlopen("libzstd.so.1", RTLD_NOW);
    begin_fat();
    memcpy(frame + 5, &(uint32_t){(uint32_t)n}, 4);
    memcpy(frame + 9, &block, 3);
    memcpy(frame + 12, text, n);
    add_member(KIND_PTX, 80, ZSTD, frame, 12 + n, n);
    if (zstd == NULL) {
        refuses(fat, CUDA_ERROR_NO_BINARY_FOR_GPU, "zstd");
        return;
    }
    dlclose(zstd);
    takes("sm_90a", "packed");
    fat[16 + 64] = 0;
    refuses(fat, CUDA_ERROR_INVALID_IMAGE, "PL8413");
}
END_TEST

START_TEST(useless_ones_are_refused_with_words)
{
    begin_fat();
    refuses(fat, CUDA_ERROR_NO_BINARY_FOR_GPU, "it holds nothing");
    add_member(KIND_CODE, 80, 0,
               "\x7f"
               "ELF",
               4, 0);
    add_text("k100a", 100, ARCH_A, "sm_100a");
    refuses(fat, CUDA_ERROR_NO_BINARY_FOR_GPU, "machine code of sm_80, PTX of sm_100a");
    put(16 + 8, 8, 1 << 20); /* a payload longer than all */
    refuses(fat, CUDA_ERROR_INVALID_IMAGE, "PL8413");
    put(6, 2, 15);
    refuses(fat, CUDA_ERROR_INVALID_IMAGE, "its header");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_fatbin");
    TCase *t = tcase_create("fatbin");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, best_member_is_taken);
    tcase_add_test(t, wrapper_leads_to_its_binary);
    tcase_add_test(t, link_takes_the_text);
    tcase_add_test(t, file_is_read_whole);
    tcase_add_loop_test(t, lz4_is_expanded, 0, 4);
    tcase_add_test(t, zstd_is_expanded);
    tcase_add_test(t, useless_ones_are_refused_with_words);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
