// Recursion on an array in local memory.
namespace quicksort_ {
__device__ __noinline__ void sort(unsigned *a, int lo, int hi)
{
    if (lo >= hi)
        return;
    int m = lo;
    for (int j = lo; j < hi; j++)
        if (a[j] < a[hi]) {
            unsigned t = a[j];
            a[j] = a[m];
            a[m++] = t;
        }
    unsigned t = a[m];
    a[m] = a[hi];
    a[hi] = t;
    sort(a, lo, m - 1);
    sort(a, m + 1, hi);
}
} // namespace quicksort_
extern "C" __global__ void quicksort(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned a[24];
    for (unsigned j = 0; j < 24; j++)
        a[j] = (j * 11 + i * 5) % 24;
    quicksort_::sort(a, 0, 23);
    unsigned v = 0;
    for (unsigned j = 0; j < 24; j++)
        v = v * 31 + a[j];
    if (i < n)
        out[i] = v;
}
