// Bitonic sort of 256 words in shared memory.
extern "C" __global__ void bitonic_sort(unsigned *out, unsigned n)
{
    __shared__ unsigned s[256];
    unsigned t = threadIdx.x;
    s[t] = (t * 167 + 13) % 256;
    for (unsigned k = 2; k <= 256; k *= 2)
        for (unsigned j = k / 2; j != 0; j /= 2) {
            __syncthreads();
            unsigned u = t ^ j;
            if (u > t && (s[t] > s[u]) == ((t & k) == 0)) {
                unsigned x = s[t];
                s[t] = s[u];
                s[u] = x;
            }
        }
    __syncthreads();
    out[t] = s[t];
}
