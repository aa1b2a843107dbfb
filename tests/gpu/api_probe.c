/*
 * What the driver answers where the manual names several errors or none: one line a question, its number of the error. The
 * argument is the library, libcuda.so.1 or the emulated driver; bench/gpu.sh runs it on both, tests/gpu_api.sh on the latter.
 *
 * assumption: alloc-alignment api-free-zero api-capture-unsafe api-capture-state api-event-fresh api-link-errors
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void *handle;

static void *library;

static void *find(const char *name)
{
    void *p = dlsym(library, name);
    if (p == NULL)
        printf("%s is not there\n", name);
    return p;
}

#define CALL(name, types, ...) (find(name) == NULL ? -1 : ((int(*) types)find(name))(__VA_ARGS__))

static void say(const char *question, int code) { printf("%-34s %d\n", question, code); }

static void ask_memory(void)
{
    uint64_t at = 0;
    say("alloc of 0 bytes", CALL("cuMemAlloc_v2", (uint64_t *, size_t), &at, 0));
    say("free of 0", CALL("cuMemFree_v2", (uint64_t), 0));
    say("free of an unknown address", CALL("cuMemFree_v2", (uint64_t), 0x123400));
    say("memset of an unknown address",
        CALL("cuMemsetD8_v2", (uint64_t, unsigned char, size_t), 0x123400, 0, 4));
    CALL("cuMemAlloc_v2", (uint64_t *, size_t), &at, 256);
    say("free of the middle", CALL("cuMemFree_v2", (uint64_t), at + 16));
    say("free", CALL("cuMemFree_v2", (uint64_t), at));
    say("free again", CALL("cuMemFree_v2", (uint64_t), at));
}

/* The second of two allocations: where it begins, modulo what it is assumed to be a multiple of. */
static void ask_alignment(const char *question, size_t n_bytes, uint64_t of)
{
    uint64_t at[2] = {0};
    for (int i = 0; i < 2; i++)
        CALL("cuMemAlloc_v2", (uint64_t *, size_t), &at[i], n_bytes);
    say(question, (int)(at[1] % of));
    for (int i = 0; i < 2; i++)
        CALL("cuMemFree_v2", (uint64_t), at[i]);
}

static void ask_alignments(void)
{
    ask_alignment("1 byte modulo 512", 1, 512);
    ask_alignment("1 MiB - 1 modulo 512", (1 << 20) - 1, 512);
    ask_alignment("1 MiB modulo 2 MiB", 1 << 20, 2 << 20);
    ask_alignment("5 MiB modulo 2 MiB", 5 << 20, 2 << 20);
}

static void ask_events(void)
{
    handle a = NULL, b = NULL;
    float ms = 0;
    CALL("cuEventCreate", (handle *, unsigned), &a, 0);
    CALL("cuEventCreate", (handle *, unsigned), &b, 0);
    say("query of a fresh event", CALL("cuEventQuery", (handle), a));
    say("time between fresh events",
        CALL("cuEventElapsedTime", (float *, handle, handle), &ms, a, b));
    CALL("cuEventDestroy_v2", (handle), a);
    CALL("cuEventDestroy_v2", (handle), b);
}

/* Mode 0: unsafe calls of any thread end a capture. */
static void ask_captures(void)
{
    handle s = NULL, graph = NULL;
    uint64_t at = 0;
    CALL("cuStreamCreate", (handle *, unsigned), &s, 1);
    say("end without begin", CALL("cuStreamEndCapture", (handle, handle *), s, &graph));
    say("begin", CALL("cuStreamBeginCapture_v2", (handle, int), s, 0));
    say("begin again", CALL("cuStreamBeginCapture_v2", (handle, int), s, 0));
    say("synchronize in a capture", CALL("cuStreamSynchronize", (handle), s));
    say("end after that", CALL("cuStreamEndCapture", (handle, handle *), s, &graph));
    CALL("cuStreamBeginCapture_v2", (handle, int), s, 0);
    say("alloc in a capture", CALL("cuMemAlloc_v2", (uint64_t *, size_t), &at, 256));
    say("end after that", CALL("cuStreamEndCapture", (handle, handle *), s, &graph));
    CALL("cuStreamDestroy_v2", (handle), s);
}

#define TEXT ".version 7.0\n.target sm_80\n.address_size 64\n"

/* Two modules are linked; what the second and the end say. */
static void ask_link(const char *first, const char *second, const char *what)
{
    const char *const texts[] = {first, second};
    handle link = NULL;
    void *image = NULL;
    size_t n_bytes = 0;
    char question[40];
    int added = 0;
    CALL("cuLinkCreate_v2", (unsigned, int *, void **, handle *), 0, NULL, NULL, &link);
    for (int i = 0; i < 2; i++)
        added = CALL("cuLinkAddData_v2",
                     (handle, int, void *, size_t, const char *, unsigned, int *, void **), link, 1,
                     (void *)(uintptr_t)texts[i], strlen(texts[i]) + 1, "text", 0, NULL, NULL);
    snprintf(question, sizeof question, "add: %s", what);
    say(question, added);
    snprintf(question, sizeof question, "complete: %s", what);
    say(question, CALL("cuLinkComplete", (handle, void **, size_t *), link, &image, &n_bytes));
    CALL("cuLinkDestroy", (handle), link);
}

static void ask_links(void)
{
    static const char f[] = TEXT ".visible .func f()\n{\nret;\n}\n",
                      k[] =
                          TEXT ".extern .func f();\n.visible .entry k()\n{\ncall.uni f;\nret;\n}\n",
                      none[] = TEXT ".visible .entry other()\n{\nret;\n}\n";
    ask_link(f, k, "a name from the other");
    ask_link(f, f, "a name twice");
    ask_link(none, k, "a name that none has");
}

static void ask_rest(void)
{
    static const char text[] = TEXT ".visible .entry k()\n{\nret;\n}\n";
    handle module = NULL, function = NULL, popped = NULL;
    int device = 0;
    say("device 99", CALL("cuDeviceGet", (int *, int), &device, 99));
    say("load", CALL("cuModuleLoadData", (handle *, const void *), &module, text));
    say("a function that is not there",
        CALL("cuModuleGetFunction", (handle *, handle, const char *), &function, module, "no"));
    say("a function",
        CALL("cuModuleGetFunction", (handle *, handle, const char *), &function, module, "k"));
#define LAUNCH(gx, bx)                                                                             \
    CALL("cuLaunchKernel",                                                                         \
         (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,    \
          void **, void **),                                                                       \
         function, gx, 1, 1, bx, 1, 1, 0, NULL, NULL, NULL)
    say("launch of no CTAs", LAUNCH(0, 32));
    say("launch of 1025 threads", LAUNCH(1, 1025));
    say("launch", LAUNCH(1, 32));
    say("synchronize", CALL("cuCtxSynchronize", (void)));
    CALL("cuModuleUnload", (handle), module);
    CALL("cuCtxPopCurrent_v2", (handle *), &popped);
    say("pop of an empty stack", CALL("cuCtxPopCurrent_v2", (handle *), &popped));
    say("synchronize without a context", CALL("cuCtxSynchronize", (void)));
}

int main(int argc, char **argv)
{
    handle ctx = NULL;
    int device = 0;
    library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL || CALL("cuInit", (unsigned), 0) != 0)
        return 77;
    CALL("cuDeviceGet", (int *, int), &device, 0);
    CALL("cuDevicePrimaryCtxRetain", (handle *, int), &ctx, device);
    CALL("cuCtxPushCurrent_v2", (handle), ctx);
    ask_memory();
    ask_alignments();
    ask_events();
    ask_captures();
    ask_links();
    ask_rest();
    return 0;
}
