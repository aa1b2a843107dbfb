// One function on global, shared and local memory through generic addresses.
namespace generic_ {
__device__ __noinline__ unsigned read(const unsigned *p) { return *p + 1; }
} // namespace generic_
extern "C" __global__ void generic_pointers(unsigned *out, unsigned n)
{
    __shared__ unsigned s[64];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned l[4] = {i, i + 1, i + 2, i + 3};
    s[threadIdx.x] = i * 2;
    __syncthreads();
    unsigned *where[3] = {out, s + threadIdx.x, l + i % 4};
    unsigned v = generic_::read(where[1 + i % 2]) + __isShared(s) + 2 * __isGlobal(out);
    __syncthreads();
    if (i < n)
        out[i] = v;
}
