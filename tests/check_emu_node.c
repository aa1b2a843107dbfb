/*
 * The emulated driver: what graph nodes say of themselves, what may be changed of them, clones, graphs launched in a capture.
 */
#include "tests/emu_driver.h"

#include <unistd.h>

enum { N_WORDS = 8 };

static CUdeviceptr new_words(void)
{
    CUdeviceptr p;
    ok(cu.cuMemAlloc_v2(&p, N_WORDS * 4));
    ok(cu.cuMemsetD32_v2(p, 0, N_WORDS));
    ok(cu.cuCtxSynchronize());
    return p;
}

static CUDA_KERNEL_NODE_PARAMS store_node(CUfunction f, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUgraph new_graph(void)
{
    CUgraph g;
    ok(cu.cuGraphCreate(&g, 0));
    return g;
}

static CUgraphNode add_store(CUgraph g, CUfunction f, CUdeviceptr p, uint32_t v)
{
    CUgraphNode n;
    void *params[] = {&p, &v};
    CUDA_KERNEL_NODE_PARAMS k = store_node(f, params);
    ok(cu.cuGraphAddKernelNode_v2(&n, g, NULL, 0, &k));
    return n;
}

static CUgraphExec run(CUgraph g)
{
    CUgraphExec x;
    ok(cu.cuGraphInstantiateWithFlags(&x, g, 0));
    ok(cu.cuGraphLaunch(x, NULL));
    ok(cu.cuCtxSynchronize());
    return x;
}

START_TEST(kernel_parameters_are_the_nodes)
{
    struct fixture f = begin();
    CUdeviceptr p = new_words(), q = new_words();
    CUgraph g = new_graph();
    CUgraphNode n = add_store(g, f.store, p, 7);
    CUDA_KERNEL_NODE_PARAMS k, again;
    ok(cu.cuGraphKernelNodeGetParams_v2(n, &k));
    ck_assert_ptr_eq(k.func, f.store);
    ck_assert_ptr_nonnull(k.kernelParams);
    ck_assert_uint_eq(*(CUdeviceptr *)k.kernelParams[0], p);
    ck_assert_uint_eq(*(uint32_t *)k.kernelParams[1], 7);
    CUgraphExec x = run(g);
    ck_assert_uint_eq(read_word(p), 7);
    k.kernelParams[0] = &q; /* one other, the rest as they are */
    ok(cu.cuGraphExecKernelNodeSetParams_v2(x, n, &k));
    ok(cu.cuGraphLaunch(x, NULL));
    ck_assert_uint_eq(read_word(q), 7);
    ok(cu.cuGraphKernelNodeSetParams_v2(n, &k));
    ok(cu.cuGraphKernelNodeGetParams_v2(n, &again));
    ck_assert_uint_eq(*(CUdeviceptr *)again.kernelParams[0], q);
    ok(cu.cuModuleUnload(f.module));
    gives(cu.cuGraphKernelNodeGetParams_v2(n, &again), INVALID_HANDLE);
    ok(cu.cuGraphDestroy(g));
}
END_TEST

START_TEST(copies_and_fills)
{
    begin();
    CUdeviceptr p = new_words(), q = new_words();
    uint32_t out[N_WORDS] = {0};
    CUgraph g = new_graph();
    CUgraphNode fill, copy;
    CUDA_MEMSET_NODE_PARAMS s = {.dst = p, .value = 5, .elementSize = 4, .width = 2, .height = 1};
    CUDA_MEMCPY3D c = {.srcXInBytes = 4,
                       .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = out,
                       .WidthInBytes = 4,
                       .Height = 1,
                       .Depth = 1};
    ok(cu.cuGraphAddMemsetNode(&fill, g, NULL, 0, &s, NULL));
    ok(cu.cuGraphAddMemcpyNode(&copy, g, &fill, 1, &c, NULL));
    gives(cu.cuGraphMemsetNodeGetParams(copy, &s), INVALID_VALUE);
    gives(cu.cuGraphMemcpyNodeGetParams(fill, &c), INVALID_VALUE);
    gives(cu.cuGraphMemcpyNodeGetParams(copy, NULL), INVALID_VALUE);
    ok(cu.cuGraphMemsetNodeGetParams(fill, &s));
    ck_assert_uint_eq(s.dst, p);
    ck_assert_uint_eq(s.value, 5);
    ck_assert_uint_eq(s.width, 2);
    ok(cu.cuGraphMemcpyNodeGetParams(copy, &c));
    ck_assert_uint_eq(c.srcDevice + c.srcXInBytes, p + 4);
    ck_assert_ptr_eq(c.dstHost, out);
    ck_assert_int_eq(c.dstMemoryType, CU_MEMORYTYPE_HOST);
    ck_assert_uint_eq(c.WidthInBytes, 4);
    run(g);
    ck_assert_uint_eq(out[0], 5);
    s.dst = q;
    s.value = 6;
    c.srcDevice = q;
    c.srcXInBytes = 0;
    c.WidthInBytes = 8;
    ok(cu.cuGraphMemsetNodeSetParams(fill, &s));
    ok(cu.cuGraphMemcpyNodeSetParams(copy, &c));
    s.elementSize = 3;
    gives(cu.cuGraphMemsetNodeSetParams(fill, &s), INVALID_VALUE);
    gives(cu.cuGraphMemcpyNodeSetParams(fill, &c), INVALID_VALUE);
    run(g);
    ck_assert_uint_eq(out[0], 6);
    ck_assert_uint_eq(out[1], 6);
    ck_assert_uint_eq(out[2], 0);
}
END_TEST

static void add_one(void *user) { ++*(int *)user; }
static void add_ten(void *user) { *(int *)user += 10; }

START_TEST(host_functions_and_events)
{
    int n = 0;
    begin();
    CUgraph g = new_graph();
    CUgraphNode host, record, wait;
    CUevent a, b, got;
    CUDA_HOST_NODE_PARAMS h = {.fn = add_one, .userData = &n};
    ok(cu.cuEventCreate(&a, 0));
    ok(cu.cuEventCreate(&b, 0));
    ok(cu.cuGraphAddHostNode(&host, g, NULL, 0, &h));
    ok(cu.cuGraphAddEventRecordNode(&record, g, &host, 1, a));
    ok(cu.cuGraphAddEventWaitNode(&wait, g, &record, 1, a));
    CUgraphExec x = run(g);
    ck_assert_int_eq(n, 1);
    ok(cu.cuGraphHostNodeGetParams(host, &h));
    ck_assert(h.fn == add_one && h.userData == &n);
    h.fn = add_ten;
    ok(cu.cuGraphHostNodeSetParams(host, &h));
    h.fn = NULL;
    gives(cu.cuGraphHostNodeSetParams(host, &h), INVALID_VALUE);
    ok(cu.cuGraphEventRecordNodeGetEvent(record, &got));
    ck_assert_ptr_eq(got, a);
    ok(cu.cuGraphEventRecordNodeSetEvent(record, b));
    ok(cu.cuGraphEventWaitNodeSetEvent(wait, b));
    ok(cu.cuGraphEventWaitNodeGetEvent(wait, &got));
    ck_assert_ptr_eq(got, b);
    gives(cu.cuGraphEventWaitNodeGetEvent(record, &got), INVALID_VALUE);
    gives(cu.cuGraphEventRecordNodeSetEvent(record, NULL), INVALID_HANDLE);
    run(g);
    ck_assert_int_eq(n, 11);
    float ms = -1;
    ok(cu.cuEventElapsedTime(&ms, a, b));
    ok(cu.cuGraphExecEventRecordNodeSetEvent(x, record, b));
    ok(cu.cuGraphExecEventWaitNodeSetEvent(x, wait, b));
    gives(cu.cuGraphExecEventWaitNodeSetEvent(x, record, b), INVALID_VALUE);
    ok(cu.cuGraphLaunch(x, NULL));
    ok(cu.cuEventSynchronize(b));
    ck_assert_int_eq(n, 12); /* the exec kept its own function */
}
END_TEST

START_TEST(child_graphs)
{
    struct fixture f = begin();
    CUdeviceptr p = new_words();
    CUgraph inner = new_graph(), outer = new_graph(), other = new_graph(), child;
    CUgraphNode node, of_child;
    size_t n = 1;
    add_store(inner, f.store, p, 1);
    ok(cu.cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
    ok(cu.cuGraphChildGraphNodeGetGraph(node, &child));
    ck_assert_ptr_ne(child, inner);
    ok(cu.cuGraphGetNodes(child, &of_child, &n));
    ck_assert_uint_eq(n, 1);
    gives(cu.cuGraphChildGraphNodeGetGraph(of_child, &child), INVALID_VALUE);
    CUgraphExec x = run(outer);
    ck_assert_uint_eq(read_word(p), 1);
    add_store(other, f.store, p, 2);
    ok(cu.cuGraphExecChildGraphNodeSetParams(x, node, other));
    ok(cu.cuGraphLaunch(x, NULL));
    ck_assert_uint_eq(read_word(p), 2);
    add_store(other, f.store, p, 3);
    gives(cu.cuGraphExecChildGraphNodeSetParams(x, node, other), INVALID_VALUE); /* another shape */
    gives(cu.cuGraphExecChildGraphNodeSetParams(x, of_child, other), INVALID_VALUE);
}
END_TEST

/* The graph as text, from a file of the test's. */
static const char *dot_of(CUgraph g)
{
    static char text[4000];
    char path[600];
    snprintf(path, sizeof path, "%s/emu_node_%ld.dot", getenv("PL_BUILDDIR"), (long)getpid());
    ok(cu.cuGraphDebugDotPrint(g, path, 0));
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    return text;
}

START_TEST(nodes_of_a_clone)
{
    struct fixture f = begin();
    CUdeviceptr p = new_words();
    CUgraph g = new_graph(), clone;
    CUgraphNode a = add_store(g, f.store, p, 1), b = add_store(g, f.store, p + 4, 2), found, last;
    CUDA_KERNEL_NODE_PARAMS k;
    ok(cu.cuGraphClone(&clone, g));
    last = add_store(g, f.store, p, 3);
    ok(cu.cuGraphNodeFindInClone(&found, b, clone));
    ok(cu.cuGraphKernelNodeGetParams_v2(found, &k));
    ck_assert_uint_eq(*(CUdeviceptr *)k.kernelParams[0], p + 4);
    gives(cu.cuGraphNodeFindInClone(&found, last, clone), INVALID_VALUE);
    gives(cu.cuGraphNodeFindInClone(&found, a, g), INVALID_VALUE);
    ok(cu.cuGraphAddDependencies(g, &a, &b, 1));
    const char *text = dot_of(g);
    ck_assert_ptr_nonnull(strstr(text, "digraph dot {"));
    ck_assert_ptr_nonnull(strstr(text, "KERNEL\\nstore"));
    ck_assert_ptr_nonnull(strstr(text, " -> "));
    gives(cu.cuGraphDebugDotPrint(g, "/nowhere/graph.dot", 0), OPERATING_SYSTEM);
    ok(cu.cuModuleUnload(f.module)); /* the names go with it */
    text = dot_of(g);
    ck_assert_ptr_nonnull(strstr(text, "KERNEL\\n\"]"));
    ck_assert_ptr_null(strstr(text, "store"));
}
END_TEST

START_TEST(launched_in_a_capture)
{
    struct fixture f = begin();
    CUdeviceptr p = new_words();
    CUgraph g = new_graph(), captured;
    CUgraphNode node = add_store(g, f.store, p, 1), nodes[2];
    CUgraphNodeType type;
    CUgraphExec x = run(g), y;
    CUstream s;
    uint32_t v = 5, out = 0;
    size_t n = 2;
    void *params[] = {&p, &v};
    CUDA_KERNEL_NODE_PARAMS k = store_node(f.store, params);
    ok(cu.cuGraphExecKernelNodeSetParams_v2(x, node, &k));
    ok(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cu.cuMemsetD32_v2(p, 0, N_WORDS));
    ok(cu.cuCtxSynchronize());
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cu.cuGraphLaunch(x, s));
    ok(cu.cuMemcpyDtoHAsync_v2(&out, p, 4, s));
    ok(cu.cuStreamEndCapture(s, &captured));
    ck_assert_uint_eq(read_word(p), 0);
    ok(cu.cuGraphExecDestroy(x));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuGraphGetNodes(captured, nodes, &n));
    ck_assert_uint_eq(n, 2);
    ok(cu.cuGraphNodeGetType(nodes[0], &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_GRAPH);
    y = run(captured);
    ck_assert_uint_eq(out, 5); /* as the exec was when it was launched */
    ok(cu.cuGraphExecDestroy(y));
}
END_TEST

/* The memory of an allocation node: its address is known at once, and a launch gives it out. */
START_TEST(memory_of_a_graph)
{
    struct fixture f = begin();
    CUgraph g = new_graph(), copy;
    CUgraphNode alloc, store, release;
    CUDA_MEM_ALLOC_NODE_PARAMS a = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                    .bytesize = 64},
                               back;
    uint32_t v = 8;
    CUdeviceptr p = 0;
    uint64_t n = 0;
    ok(cu.cuGraphAddMemAllocNode(&alloc, g, NULL, 0, &a));
    ck_assert_uint_ne(a.dptr, 0);
    ok(cu.cuGraphMemAllocNodeGetParams(alloc, &back));
    ck_assert_uint_eq(back.dptr, a.dptr);
    ck_assert_uint_eq(back.bytesize, 64);
    void *params[] = {&a.dptr, &v};
    CUDA_KERNEL_NODE_PARAMS k = store_node(f.store, params);
    ok(cu.cuGraphAddKernelNode_v2(&store, g, &alloc, 1, &k));
    CUgraphExec x = run(g);
    ck_assert_uint_eq(read_word(a.dptr), 8);
    gives(cu.cuGraphLaunch(x, NULL), INVALID_VALUE); /* it is still given out */
    ok(cu.cuMemFreeAsync(a.dptr, NULL));
    ok(cu.cuGraphLaunch(x, NULL));
    ok(cu.cuMemFree_v2(a.dptr));
    gives(cu.cuMemFree_v2(a.dptr), INVALID_VALUE);
    gives(cu.cuMemFreeAsync(a.dptr, NULL), INVALID_VALUE);
    ok(cu.cuGraphExecDestroy(x));
    gives(cu.cuGraphAddMemFreeNode(&release, g, &store, 1, new_words()), INVALID_VALUE);
    ok(cu.cuGraphAddMemFreeNode(&release, g, &store, 1, a.dptr));
    ok(cu.cuGraphMemFreeNodeGetParams(release, &p));
    ck_assert_uint_eq(p, a.dptr);
    gives(cu.cuGraphMemFreeNodeGetParams(alloc, &p), INVALID_VALUE);
    x = run(g);
    ok(cu.cuGraphLaunch(x, NULL));
    gives(cu.cuGraphClone(&copy, g), NOT_SUPPORTED);
    gives(cu.cuGraphAddChildGraphNode(&store, new_graph(), NULL, 0, g), NOT_SUPPORTED);
    gives(cu.cuGraphDestroyNode(release), NOT_SUPPORTED);
    ok(cu.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &n));
    ck_assert_uint_eq(n, 64);
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuGraphLaunch(x, NULL)); /* the exec has it too */
    ok(cu.cuCtxSynchronize());
    ok(cu.cuGraphExecDestroy(x));
    ok(cu.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &n));
    ck_assert_uint_eq(n, 0);
    gives(cu.cuMemcpyDtoH_v2(&v, a.dptr, 4), INVALID_VALUE);
    ok(cu.cuDeviceGraphMemTrim(0));
    ok(cu.cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &n));
    a.bytesize = 0;
    gives(cu.cuGraphAddMemAllocNode(&alloc, new_graph(), NULL, 0, &a), INVALID_VALUE);
}
END_TEST

START_TEST(memory_of_a_capture)
{
    struct fixture f = begin();
    CUdeviceptr p, q = new_words();
    CUstream s;
    CUgraph g;
    CUgraphNode nodes[4];
    CUgraphNodeType type;
    CUgraphExec x;
    size_t n = 4;
    ok(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cu.cuMemAllocAsync(&p, 32, s));
    ok(launch_store(f.store, s, p, 21));
    ok(cu.cuMemcpyDtoDAsync_v2(q, p, 4, s));
    ok(cu.cuMemFreeAsync(p, s));
    ok(cu.cuStreamEndCapture(s, &g));
    ok(cu.cuGraphGetNodes(g, nodes, &n));
    ck_assert_uint_eq(n, 4);
    ok(cu.cuGraphNodeGetType(nodes[0], &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    ok(cu.cuGraphNodeGetType(nodes[3], &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
    x = run(g);
    ck_assert_uint_eq(read_word(q), 21);
    ok(cu.cuGraphLaunch(x, s));
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gives(cu.cuMemFreeAsync(q, s), INVALID_VALUE); /* not of a graph */
    gives(cu.cuStreamEndCapture(s, &g), STREAM_CAPTURE_INVALIDATED);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_node");
    TCase *t = tcase_create("node");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, kernel_parameters_are_the_nodes);
    tcase_add_test(t, copies_and_fills);
    tcase_add_test(t, host_functions_and_events);
    tcase_add_test(t, child_graphs);
    tcase_add_test(t, nodes_of_a_clone);
    tcase_add_test(t, launched_in_a_capture);
    tcase_add_test(t, memory_of_a_graph);
    tcase_add_test(t, memory_of_a_capture);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
