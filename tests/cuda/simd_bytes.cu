// Four bytes in a word: dot product, sums, maxima.
extern "C" __global__ void simd_bytes(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned a = i * 0x01030507u, b = i * 0x00020406u + 0x10101010u;
    if (i < n)
        out[i] = __dp4a(a, b, i) + __vadd4(a, b) + __vmaxu4(a, b) + __usad(a, b, 1);
}
