// Insertion sort of an array in local memory.
extern "C" __global__ void local_array(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned a[16];
    for (unsigned j = 0; j < 16; j++)
        a[j] = (j * 7 + i) % 16;
    for (unsigned j = 1; j < 16; j++)
        for (unsigned l = j; l > 0 && a[l - 1] > a[l]; l--) {
            unsigned t = a[l];
            a[l] = a[l - 1];
            a[l - 1] = t;
        }
    unsigned v = 0;
    for (unsigned j = 0; j < 16; j++)
        v += j * a[j];
    if (i < n)
        out[i] = v + a[i % 16];
}
