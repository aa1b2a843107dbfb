// Loops of a different length in every lane.
extern "C" __global__ void collatz(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned steps = 0;
    for (unsigned v = i + 1; v != 1; steps++)
        v = v % 2 ? 3 * v + 1 : v / 2;
    if (i < n)
        out[i] = steps;
}
