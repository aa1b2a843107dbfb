// Unaligned byte arrays and byte permutation.
extern "C" __global__ void bytes(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned char b[12];
    for (unsigned j = 0; j < 12; j++)
        b[j] = (unsigned char)(i * 3 + j * 17);
    unsigned v = b[i % 9] | b[i % 9 + 1] << 8 | b[i % 9 + 2] << 16 | (unsigned)b[i % 9 + 3] << 24;
    if (i < n)
        out[i] = __byte_perm(v, v, 0x0123);
}
