// Asynchronous copies of 16 bytes into shared memory, in two stages.
#include <cuda_pipeline.h>
extern "C" __global__ void async_copy(unsigned *out, unsigned n)
{
    __shared__ uint4 stage[2][32];
    unsigned lane = threadIdx.x, sum = 0;
    uint4 *data = (uint4 *)(out + 32);
    for (unsigned j = 0; j < 4; j++)
        data[j * 32 + lane] = make_uint4(j, lane, j * lane, 1);
    __syncthreads();
    __pipeline_memcpy_async(&stage[0][lane], &data[lane], 16);
    __pipeline_commit();
    for (unsigned j = 0; j < 4; j++) {
        if (j + 1 < 4)
            __pipeline_memcpy_async(&stage[(j + 1) % 2][lane], &data[(j + 1) * 32 + lane], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        uint4 v = stage[j % 2][31 - lane];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
    out[lane] = sum;
}
