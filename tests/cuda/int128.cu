// 128-bit products and sums.
extern "C" __global__ void int128(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned __int128 p = (unsigned __int128)(0xfedcba9876543210ull + i) * (0x123456789abcdefull * (i + 1));
    p += (unsigned __int128)i << 100;
    if (i < n)
        out[i] = (unsigned)(p >> 96) ^ (unsigned)(p >> 64) ^ (unsigned)(p >> 32) ^ (unsigned)p;
}
