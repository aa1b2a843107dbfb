// Calls: direct, through pointers, with structs, to printf; local arrays, switches, constant tables.
#include <cstdio>

struct pair {
    int a;
    float b[4];
};

__constant__ float table[4] = {1.0f, 2.5f, -3.0f, 1e-9f};
__device__ const char *names[2] = {"hello", "world"};
__device__ int counter;
__device__ int (*functions[2])(int);

__device__ __noinline__ int triple(int x) { return x * 3 + counter; }
__device__ __noinline__ int flip(int x) { return x ^ 5; }
__device__ __noinline__ pair mix(pair s, int n)
{
    for (int i = 0; i < n; i++)
        s.b[i & 3] += s.a;
    return s;
}

__global__ void __launch_bounds__(256, 2) calls(float *p, const float *q, int n, pair s)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    float a = q[i];
    pair t = mix(s, n);
    functions[0] = triple;
    functions[1] = flip;
    int r = functions[i & 1](i);
    switch (n) {
    case 0: a += 1; break;
    case 1: a *= 2; break;
    case 2: a -= 3; break;
    case 3: a /= 3; break;
    case 4: a = -a; break;
    case 5: a = a * a; break;
    case 6: a = 7; break;
    default: break;
    }
    p[i] = a + t.b[1] + r + table[n & 3];
    if (i == 0)
        printf("%s %d %f\n", names[n & 1], r, a);
}
