// A function that calls itself twice.
namespace recursion_ {
__device__ __noinline__ unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
} // namespace recursion_
extern "C" __global__ void recursion(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = recursion_::fib(i % 16);
}
