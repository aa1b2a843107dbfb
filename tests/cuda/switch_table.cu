// A dense switch: a branch table.
extern "C" __global__ void switch_table(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v;
    switch (i % 10) {
    case 0: v = i + 11; break;
    case 1: v = i * 3; break;
    case 2: v = i ^ 5; break;
    case 3: v = ~i; break;
    case 4: v = i << 4; break;
    case 5: v = i / 3; break;
    case 6: v = i % 3; break;
    case 7: v = __popc(i); break;
    case 8: v = __brev(i); break;
    default: v = 0; break;
    }
    if (i < n)
        out[i] = v;
}
