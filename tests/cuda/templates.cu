// Loops that templates unroll.
namespace templates_ {
template <int E> struct power {
    static __device__ unsigned of(unsigned x) { return E % 2 ? x * power<E - 1>::of(x) : power<E / 2>::of(x * x); }
};
template <> struct power<0> {
    static __device__ unsigned of(unsigned) { return 1; }
};
template <typename F> __device__ unsigned apply(unsigned x, F f) { return f(f(x) + 1); }
} // namespace templates_
extern "C" __global__ void templates(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = templates_::power<13>::of(i) + templates_::apply(i, [=](unsigned x) { return x ^ n; });
}
