// Indirect calls, a different function for each lane.
namespace pointers_ {
typedef unsigned op(unsigned, unsigned);
__device__ unsigned add(unsigned a, unsigned b) { return a + b; }
__device__ unsigned sub(unsigned a, unsigned b) { return a - b; }
__device__ unsigned mul(unsigned a, unsigned b) { return a * b; }
__device__ unsigned shl(unsigned a, unsigned b) { return a << b; }
__device__ op *table[4] = {add, sub, mul, shl};
} // namespace pointers_
extern "C" __global__ void function_pointers(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = pointers_::table[i % 4](i, 3);
}
