/*
 * A program as anybody would write it against NVIDIA's cuda.h and libcuda.so.1: it knows nothing of plaunch. tests/emu_program.sh
 * compiles it against the toolkit and runs it on the emulated driver.
 *
 *   emu_program F.ptx    F has extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static void check(CUresult r, const char *what)
{
    const char *name = "?";
    if (r == CUDA_SUCCESS)
        return;
    cuGetErrorName(r, &name);
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}
#define CHECK(call) check(call, #call)

int main(int argc, char **argv)
{
    enum { N = 10000 };
    static float x[N], y[N];
    CUdevice dev;
    CUcontext ctx;
    CUmodule module;
    CUfunction saxpy;
    CUdeviceptr dx, dy;
    CUstream stream;
    CUevent start, end;
    char name[100];
    int n = N, n_wrong = 0;
    float a = 3, ms;
    if (argc != 2)
        return 2;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&dev, 0));
    CHECK(cuDeviceGetName(name, sizeof name, dev));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuModuleLoad(&module, argv[1]));
    CHECK(cuModuleGetFunction(&saxpy, module, "saxpy"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    CHECK(cuMemAlloc(&dx, sizeof x));
    CHECK(cuMemAlloc(&dy, sizeof y));
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    CHECK(cuMemcpyHtoDAsync(dx, x, sizeof x, stream));
    CHECK(cuMemcpyHtoDAsync(dy, y, sizeof y, stream));
    void *params[] = {&n, &a, &dx, &dy};
    CHECK(cuEventRecord(start, stream));
    CHECK(cuLaunchKernel(saxpy, (N + 255) / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL));
    CHECK(cuEventRecord(end, stream));
    CHECK(cuMemcpyDtoHAsync(y, dy, sizeof y, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuEventElapsedTime(&ms, start, end));
    for (int i = 0; i < N; i++)
        n_wrong += y[i] != 3 * (float)i + 1;
    printf("%s: %d of %d wrong, %.3f ms\n", name, n_wrong, N, (double)ms);
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuEventDestroy(start));
    CHECK(cuEventDestroy(end));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(dev));
    return n_wrong != 0;
}
