// Two functions that call each other, lanes to different depths.
namespace mutual_ {
__device__ __noinline__ unsigned is_odd(unsigned n);
__device__ __noinline__ unsigned is_even(unsigned n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ unsigned is_odd(unsigned n) { return n == 0 ? 0 : is_even(n - 1); }
} // namespace mutual_
extern "C" __global__ void mutual_recursion(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = mutual_::is_even(i);
}
