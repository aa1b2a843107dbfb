#include "base/os.h"
#include "tools/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Libraries that are opened at run time when they are there. */
static const char *const optional_libs[][4] = {
    {"nvJitLink", "libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"},
    {"NVRTC", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
    {"libcuda", "libcuda.so.1", NULL, NULL},
};

static const char *find_lib(const char *const *names)
{
    for (int i = 1; i < 4 && names[i] != NULL; i++) {
        void *lib = pl_os_lib_open(names[i], NULL, 0);
        if (lib != NULL)
            return names[i]; /* stays open: closed, it could not free what it made */
    }
    return NULL;
}

/* A program on PATH; false when there is none. */
static bool find_program(const char *name, char *out, size_t out_bytes)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        const size_t n = strcspn(path, ":");
        snprintf(out, out_bytes, "%.*s/%s", (int)n, path, name);
        if (access(out, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static json_t *driver_json(const char *driver)
{
    pl_context *ctx = NULL;
    pl_error err = {0};
    const pl_context_options options = {.struct_size = sizeof options, .driver = driver};
    if (pl_context_create(&ctx, &options, &err) != PL_OK)
        return json_pack("{s:b, s:s, s:s}", "ok", 0, "status", pl_status_name(err.status), "error",
                         err.text);
    const pl_context_facts f = pl_context_info(ctx);
    pl_context_destroy(ctx);
    json_t *d =
        json_pack("{s:b, s:s, s:i, s:s, s:s, s:i, s:I, s:s, s:b}", "ok", 1, "path", f.driver_path,
                  "version", (int)f.driver_version, "device", f.device_name, "arch", f.arch_name,
                  "sms", (int)f.device.n_sms, "smem_bytes", (json_int_t)f.device.smem_bytes,
                  "assembler", f.assembler, "emulated", (int)f.is_emulated);
    json_object_set_new(d, "cache_dir",
                        f.cache_dir[0] != '\0' ? json_string(f.cache_dir) : json_null());
    json_object_set_new(d, "cache_why_off", json_string(f.cache_why_off));
    return d;
}

static json_t *find_all(void)
{
    json_t *root = json_object();
    json_object_set_new(root, "default", driver_json(NULL));
    json_object_set_new(root, "emulator", driver_json("emulator"));
    json_t *libs = json_object();
    for (size_t i = 0; i < sizeof optional_libs / sizeof optional_libs[0]; i++) {
        const char *name = find_lib(optional_libs[i]);
        json_object_set_new(libs, optional_libs[i][0],
                            name != NULL ? json_string(name) : json_null());
    }
    json_object_set_new(root, "libraries", libs);
    char ptxas[4096];
    json_object_set_new(root, "ptxas",
                        find_program("ptxas", ptxas, sizeof ptxas) ? json_string(ptxas)
                                                                   : json_null());
    return root;
}

static void print_driver(const char *title, const json_t *d)
{
    if (json_is_false(json_object_get(d, "ok"))) {
        printf("%-10s none: %s\n", title, json_string_value(json_object_get(d, "error")));
        return;
    }
    printf("%-10s %s, version %d%s\n           %s, %s, %d SMs, %lld bytes of shared memory a "
           "block; assembler %s\n",
           title, json_string_value(json_object_get(d, "path")),
           (int)json_integer_value(json_object_get(d, "version")),
           json_is_true(json_object_get(d, "emulated")) ? " (emulated)" : "",
           json_string_value(json_object_get(d, "device")),
           json_string_value(json_object_get(d, "arch")),
           (int)json_integer_value(json_object_get(d, "sms")),
           (long long)json_integer_value(json_object_get(d, "smem_bytes")),
           json_string_value(json_object_get(d, "assembler")));
}

int pl_cmd_doctor(int argc, char **argv)
{
    const bool is_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 2 || (argc == 2 && !is_json))
        return pl_cmd_usage("doctor", "%s is not an option here",
                            argv[strcmp(argv[1], "--json") == 0 ? 2 : 1]);
    json_t *root = find_all();
    const bool is_ok = json_is_true(json_object_get(json_object_get(root, "default"), "ok"));
    if (is_json) {
        int status = pl_cmd_print_json(root);
        return is_ok ? status : PL_CMD_FAILED;
    }
    print_driver("driver", json_object_get(root, "default"));
    print_driver("emulator", json_object_get(root, "emulator"));
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(root, "libraries"), name, value)
        printf("%-10s %s\n", name, json_is_string(value) ? json_string_value(value) : "not found");
    const json_t *cache = json_object_get(json_object_get(root, "default"), "cache_dir");
    const char *why_off =
        json_string_value(json_object_get(json_object_get(root, "default"), "cache_why_off"));
    printf("%-10s %s%s%s\n", "cache", json_is_string(cache) ? json_string_value(cache) : "off",
           why_off != NULL && why_off[0] != '\0' ? ": " : "", why_off != NULL ? why_off : "");
    value = json_object_get(root, "ptxas");
    printf("%-10s %s\n", "ptxas", json_is_string(value) ? json_string_value(value) : "not found");
    json_decref(root);
    return is_ok ? PL_CMD_OK : PL_CMD_FAILED;
}
