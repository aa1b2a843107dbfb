// Functions of the CUDA math library, as nvcc expands them: long sequences of scalar PTX whose results are known to a few ulps.
// tests/check_ops_nvcc.c has the references, in the same order.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void math(const float *x, const float *y, float *out, const double *dx, double *dout, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float a = x[i], b = y[i], *o = out + i * 24;
    double d = dx[i], *q = dout + i * 8;
    o[0] = expf(a);
    o[1] = logf(fabsf(a));
    o[2] = powf(fabsf(a), b);
    o[3] = sinf(a);
    o[4] = cosf(a);
    o[5] = tanf(a);
    o[6] = tanhf(a);
    o[7] = erff(a);
    o[8] = sqrtf(fabsf(a));
    o[9] = a / b;
    o[10] = fmodf(a, b);
    o[11] = exp2f(a);
    o[12] = log2f(fabsf(a));
    o[13] = cbrtf(a);
    o[14] = atan2f(a, b);
    o[15] = rsqrtf(fabsf(a));
    o[16] = floorf(a) + ceilf(b) + rintf(a) + truncf(b);
    o[17] = hypotf(a, b);
    o[18] = asinf(a / (1.0f + fabsf(a)));
    o[19] = (float)(long long)(a * 1000.0f);
    o[20] = __half2float(__hfma(__float2half(a), __float2half(b), __float2half(1.0f)));
    o[21] = __bfloat162float(__float2bfloat16(a));
    o[22] = (float)__nv_fp8_e4m3(a);
    o[23] = (float)__nv_fp8_e5m2(b);
    q[0] = exp(d);
    q[1] = log(fabs(d));
    q[2] = sin(d);
    q[3] = cbrt(d);
    q[4] = pow(fabs(d), 0.3);
    q[5] = sqrt(fabs(d));
    q[6] = 1.0 / d;
    q[7] = tgamma(fabs(d) + 0.5);
}
