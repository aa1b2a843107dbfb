// Lists made with malloc in the kernel.
namespace malloc_ {
struct node {
    unsigned value;
    node *next;
};
} // namespace malloc_
extern "C" __global__ void device_malloc(unsigned *out, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    malloc_::node *head = 0;
    for (unsigned j = 0; j < 5; j++) {
        malloc_::node *x = (malloc_::node *)malloc(sizeof *x);
        x->value = i + j;
        x->next = head;
        head = x;
    }
    unsigned sum = 0;
    while (head) {
        malloc_::node *next = head->next;
        sum = sum * 2 + head->value;
        free(head);
        head = next;
    }
    if (i < n)
        out[i] = sum;
}
