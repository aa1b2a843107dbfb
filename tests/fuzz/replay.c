/*
 * Runs a fuzz target without a fuzzer: every file of the corpus folder named after the program, then inputs from a fixed generator, so
 * that plain `make check` exercises the target on more than its corpus.   TARGET [N_RANDOM [FIRST_SEED]]
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_file(const char *path)
{
    static uint8_t bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return;
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    LLVMFuzzerTestOneInput(bytes, n);
}

static int run_corpus(const char *name)
{
    char folder[512], path[1024];
    int n = 0;
    const char *srcdir = getenv("PL_SRCDIR");
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", srcdir != NULL ? srcdir : ".", name);
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            run_file(path);
            n++;
        }
    if (d != NULL)
        closedir(d);
    return n;
}

static uint64_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    name = strncmp(name, "lt-", 3) == 0 ? name + 3 : name;
    name = strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name;
    long n_random = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    int n_files = run_corpus(name);
    static uint8_t bytes[4096];
    for (long i = 0; i < n_random; i++) {
        uint64_t state = first + (uint64_t)i;
        size_t n = next(&state) % sizeof bytes;
        for (size_t j = 0; j < n; j++)
            bytes[j] = (uint8_t)next(&state);
        LLVMFuzzerTestOneInput(bytes, n);
    }
    printf("%s: %d files, %ld random inputs\n", name, n_files, n_random);
    return 0;
}
