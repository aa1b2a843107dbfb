// Lanes of one warp return before barriers, some after work of their own; the others go on through barriers and votes of the CTA.
extern "C" __global__ void divergent_return(unsigned *out, unsigned n)
{
    __shared__ unsigned s[128];
    unsigned i = threadIdx.x;
    if (i >= n) // 100: in the middle of a warp
        return;
    s[i] = i + 1;
    __syncthreads();
    unsigned v = s[n - 1 - i];
    if (i % 3 == 2) {
        for (unsigned j = 0; j < i; j++)
            v = v * 5 + j;
        out[i] = v;
        return;
    }
    unsigned yes = __syncthreads_count(i % 2 == 0);
    if (i < 7)
        return;
    bool is_any = __syncthreads_or(i == 99), is_all = __syncthreads_and(i >= 7);
    if (i % 3 == 1 && i > 50)
        return;
    __syncthreads();
    out[i] = v + 1000 * yes + 100000 * is_any + 200000 * is_all;
}
