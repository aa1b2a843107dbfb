// A lock that lanes of one warp contend for.
extern "C" __global__ void spin_lock(unsigned *out, unsigned n)
{
    bool is_done = false;
    while (!is_done) {
        if (atomicCAS(out + 1, 0, 1) == 0) {
            volatile unsigned *v = out;
            *v = *v + 1;
            __threadfence();
            atomicExch(out + 1, 0);
            is_done = true;
        }
    }
}
