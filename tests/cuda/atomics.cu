// Every kind of atomic on words of its own.
extern "C" __global__ void atomics(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(out + 0, i);
    atomicSub(out + 1, i);
    atomicMin((int *)out + 2, -(int)i);
    atomicMax(out + 3, i);
    atomicAnd(out + 4, ~(1u << (i % 8)));
    atomicOr(out + 5, 1u << (i % 8));
    atomicXor(out + 6, i);
    atomicInc(out + 7, 9);
    atomicDec(out + 8, 9);
    atomicExch(out + 9, 5);
    atomicAdd((unsigned long long *)out + 5, 1ull << 33);
    atomicAdd((float *)out + 12, 0.5f);
    atomicAdd((double *)out + 7, 0.25);
}
