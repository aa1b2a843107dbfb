// Inclusive scan by shuffles, lanes below the distance excluded.
extern "C" __global__ void warp_scan(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % 32, v = lane + 1;
    for (unsigned d = 1; d < 32; d *= 2) {
        unsigned u = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d)
            v += u;
    }
    if (i < n)
        out[i] = v;
}
