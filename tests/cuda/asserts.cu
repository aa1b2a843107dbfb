// An assertion that fails in thread 3.
#include <cassert>
extern "C" __global__ void asserts(unsigned *out, unsigned n)
{
    assert(threadIdx.x != 3);
    out[threadIdx.x] = n;
}
