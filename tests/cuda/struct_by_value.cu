// Structures as parameters and results of a call.
namespace struct_ {
struct point {
    int x;
    long long y;
    char c;
};
__device__ __noinline__ point turn(point p, int by)
{
    point q = {(int)p.y + by, p.x - by, (char)(p.c + 1)};
    return q;
}
} // namespace struct_
extern "C" __global__ void struct_by_value(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    struct_::point p = {(int)i, (long long)i * i, (char)(i % 7)};
    p = struct_::turn(p, 5);
    if (i < n)
        out[i] = (unsigned)(p.x + p.y + p.c);
}
