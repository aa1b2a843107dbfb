// Loads and stores of four words.
extern "C" __global__ void vectors(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 v = make_uint4(i, i + 1, i + 2, i + 3);
    ((uint4 *)out)[i] = v;
    __syncwarp();
    uint2 w = ((uint2 *)out)[2 * i + 1];
    ((uint2 *)out)[2 * i + 1] = make_uint2(w.y, w.x);
}
