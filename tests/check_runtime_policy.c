/* Compile policies, captures, contexts, threads and eviction, over the do-nothing driver. */
#include "tests/launch_case.h"

static atomic_bool is_over; /* to a thread that goes on until then */

/* ---- policies, capture ---- */

START_TEST(never_takes_the_nearest_prepared)
{
    pl_launch_options never = with(PL_COMPILE_NEVER), second = with(PL_COMPILE_BLOCK);
    pl_prepared *p;
    ck_assert_int_eq(launch_on(stream, &never), PL_E_NOT_CACHED);
    ck_assert_int_eq(err.code, 6122);
    second.config = 2; /* the other configuration, and tensors with fewer facts */
    args[0].u.tensor.address += 4;
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, &second, &p, &err), PL_OK);
    args[0].u.tensor.address -= 4;
    ck_assert_int_eq(launch_on(stream, &never), PL_OK);
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(nd->config.grid[0], 1);
    set_args(3, 600, PL_F32); /* its grid is that of the variant: tiles of 512 */
    ck_assert_int_eq(launch_on(stream, &never), PL_OK);
    ck_assert_uint_eq(nd->config.grid[0], 2);
    set_args(3, 600, PL_F16); /* another dtype is no neighbour */
    ck_assert_int_eq(launch_on(stream, &never), PL_E_NOT_CACHED);
    pl_prepared_destroy(p);
}
END_TEST

/* A variant that relies on a fact does not serve tensors without it. */
START_TEST(never_respects_facts)
{
    pl_launch_options never = with(PL_COMPILE_NEVER);
    launch_ok();
    args[0].u.tensor.address += 4;
    ck_assert_int_eq(launch_on(stream, &never), PL_E_NOT_CACHED);
}
END_TEST

/* The status of an asynchronous launch once it is no longer pending. */
static pl_status launch_until_settled(const pl_kernel *k, int *n_pending)
{
    const pl_launch_options o = with(PL_COMPILE_ASYNC);
    for (*n_pending = 0; *n_pending < 100000; ++*n_pending) {
        pl_status st = pl_launch(ctx, k, stream, args, 2, &o, &err);
        if (st != PL_E_PENDING)
            return st;
        ck_assert_int_eq(err.code, 6125);
        usleep(100);
    }
    return PL_E_PENDING;
}

START_TEST(asynchronous_builds)
{
    int n_pending;
    nd->load_ns = 3000000;
    ck_assert_int_eq(launch_until_settled(&kernel, &n_pending), PL_OK);
    ck_assert_int_gt(n_pending, 0);
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(stats().launches, 1);
    launch_ok();
    ck_assert_uint_eq(stats().builds, 1);
    pl_kernel k = kernel;
    k.body = bad_body; /* its error comes with a later call, and stays */
    ck_assert_int_eq(launch_until_settled(&k, &n_pending), PL_E_INVALID);
    ck_assert_int_ne(err.code, 0);
    ck_assert_int_eq(launch_until_settled(&k, &n_pending), PL_E_INVALID);
    ck_assert_int_eq(n_pending, 0);
}
END_TEST

/* A blocking launch waits for the worker's build. */
START_TEST(blocking_beside_asynchronous)
{
    const pl_launch_options o = with(PL_COMPILE_ASYNC);
    nd->load_ns = 3000000;
    ck_assert_int_eq(launch_on(stream, &o), PL_E_PENDING);
    launch_ok();
    ck_assert_uint_eq(stats().builds, 1);
}
END_TEST

START_TEST(ending_with_builds_waiting)
{
    static const char *const names[6] = {"a", "b", "c", "d", "e", "f"};
    const pl_launch_options o = with(PL_COMPILE_ASYNC);
    pl_kernel k[6];
    nd->load_ns = 2000000;
    for (int i = 0; i < 6; i++) {
        k[i] = kernel;
        k[i].name = names[i];
        ck_assert_int_eq(pl_launch(ctx, &k[i], stream, args, 2, &o, &err), PL_E_PENDING);
    }
    pl_context_destroy(ctx);
    make_context(NULL);
}
END_TEST

/* Case 29. */
START_TEST(cold_launch_in_a_capture)
{
    nd->capture_status = PL_CU_CAPTURE_ACTIVE;
    ck_assert_int_eq(launch(), PL_E_CAPTURING);
    ck_assert_int_eq(err.code, 6123);
    ck_assert_uint_eq(stats().capture_miss, 1);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData] + nd->n_calls[ND_CtxSynchronize], 0);
    nd->capture_status = PL_CU_CAPTURE_NONE;
    launch_ok();
    nd->capture_status = PL_CU_CAPTURE_ACTIVE;
    launch_ok();
    ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5001, NULL),
                     PL_E_CAPTURING); /* not loaded in that context */
    ck_assert_uint_eq(stats().capture_miss, 2);
}
END_TEST

START_TEST(legacy_stream_beside_a_capture)
{
    nd->fail_call = ND_StreamIsCapturing + 1;
    nd->fail_code = PL_CU_STREAM_CAPTURE_IMPLICIT;
    ck_assert_int_eq(launch_on(NULL, NULL), PL_E_CAPTURING);
    pl_prepared *p;
    ck_assert_int_eq(pl_prepare(ctx, &kernel, args, 2, NULL, &p, &err),
                     PL_OK); /* loads are RELAXED */
    pl_prepared_destroy(p);
}
END_TEST

/* ---- contexts and threads ---- */

/* Case 23: one variant, finalised in each CUDA context that launches it. */
START_TEST(two_cuda_contexts)
{
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5000, NULL), PL_OK);
        ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5001, NULL), PL_OK);
    }
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(nd->n_calls[ND_FuncLoad], 2);
    ck_assert_uint_eq(nd->n_calls[ND_LaunchKernelEx], 8);
}
END_TEST

/* Case 24. */
START_TEST(stream_of_another_device)
{
    ck_assert_int_eq(launch_on((pl_stream)(uintptr_t)0x5010, NULL), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6131);
    ck_assert_int_eq(err.actual, 1);
    ck_assert_int_eq(err.expected, 0);
}
END_TEST

START_TEST(tensor_of_another_device)
{
    args[1].u.tensor.address |= (uint64_t)3 << 60; /* the do-nothing driver's way to say device 3 */
    ck_assert_int_eq(launch(), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6130);
    ck_assert_int_eq(err.argument, 1);
    ck_assert_int_eq(err.actual, 3);
    ck_assert_uint_eq(stats().emitted, 0);
}
END_TEST

/* More contexts than there are slots: each launch finalises anew, and works. */
START_TEST(more_contexts_than_slots)
{
    for (int pass = 0; pass < 2; pass++)
        for (uintptr_t i = 0; i < 80; i++)
            ck_assert_int_eq(launch_on((pl_stream)(0x5000 + i / 16 * 0x100 + i % 16), NULL), PL_OK);
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(stats().launches, 160);
}
END_TEST

static void *launch_once(void *p)
{
    pl_arg mine[2];
    pl_error e;
    (void)p;
    memcpy(mine, args, sizeof mine);
    for (int i = 0; i < 50; i++)
        if (pl_launch(ctx, &kernel, i % 2 ? stream : NULL, mine, 2, NULL, &e) != PL_OK)
            return p;
    return NULL;
}

/* Case 22 through the public function; no thread has a current context. */
START_TEST(threads_share_one_build)
{
    pthread_t threads[64];
    nd->is_recording = false;
    nd->load_ns = 3000000;
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_once, args), 0);
    for (int i = 0; i < 64; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(stats().builds, 1);
    ck_assert_uint_eq(stats().launches, 64 * 50);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 1);
}
END_TEST

/* ---- eviction ---- */

/* Case 19: more variants than the driver holds. */
START_TEST(idle_modules_make_room)
{
    nd->max_libraries = 4;
    pl_kernel kernels[20];
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < 20; i++) {
            static const char *const names[20] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                                  "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"};
            kernels[i] = kernel;
            kernels[i].name = names[i];
            ck_assert_int_eq(pl_launch(ctx, &kernels[i], stream, args, 2, NULL, &err), PL_OK);
        }
    }
    ck_assert_uint_gt(stats().evicted, 0);
    ck_assert_uint_eq(stats().launches, 60);
    ck_assert_uint_le(nd->n_calls[ND_LibraryLoadData] - nd->n_calls[ND_LibraryUnload], 4);
}
END_TEST

static pl_kernel many[12];

static void *launch_random(void *p)
{
    pl_error e;
    uint64_t state = (uint64_t)(uintptr_t)p;
    for (int i = 0; i < 300; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (pl_launch(ctx, &many[(state >> 40) % 12], stream, args, 2, NULL, &e) != PL_OK)
            return p;
    }
    return NULL;
}

static void make_many(void)
{
    static const char *const names[12] = {"a", "b", "c", "d", "e", "f",
                                          "g", "h", "i", "j", "k", "l"};
    for (int i = 0; i < 12; i++) {
        many[i] = kernel;
        many[i].name = names[i];
    }
}

/* Threads launch what others evict: nothing is unloaded between being found and being launched. */
START_TEST(eviction_beside_launches)
{
    pthread_t threads[4];
    nd->is_recording = false;
    nd->max_libraries = 8;
    make_many();
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_random, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_gt(stats().evicted, 0);
    ck_assert_uint_eq(stats().launches, 1200);
    ck_assert_uint_eq(nd->n_unloaded_launches, 0);
}
END_TEST

static struct pl_entry *the_entry;

static void note_the_entry(struct pl_entry *e, void *user)
{
    (void)user;
    the_entry = e;
}

static void *evict_now(void *p)
{
    (void)p;
    return (void *)(uintptr_t)pl_evict_idle(ctx);
}

/* Chosen while idle, pinned (as pl_prepare does, having it in use) before it is unloaded: then it stays. */
START_TEST(pinned_after_being_chosen)
{
    pthread_t evictor;
    void *n_evicted;
    launch_ok();
    pl_cache_each(&ctx->cache, note_the_entry, NULL);
    struct pl_variant *v = atomic_load(&the_entry->variant);
    struct pl_thread *mine = pl_thread_get(&ctx->threads);
    atomic_store(&mine->in_use, v);
    ck_assert_int_eq(pthread_create(&evictor, NULL, evict_now, NULL), 0);
    while (atomic_load(&the_entry->variant) != NULL)
        usleep(100);
    atomic_store(&v->is_pinned, true);
    atomic_store(&mine->in_use, NULL);
    pthread_join(evictor, &n_evicted);
    ck_assert_ptr_null(n_evicted);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryUnload], 0);
    ck_assert_ptr_eq(ctx->modules.retired, v);
    launch_ok(); /* built again, on the module that is there */
    ck_assert_uint_eq(stats().builds, 2);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryLoadData], 1);
}
END_TEST

static void *prepare_often(void *p)
{
    pl_error e;
    for (int i = 0; !atomic_load(&is_over); i++) {
        pl_prepared *one;
        if (pl_prepare(ctx, &many[i % 2], args, 2, NULL, &one, &e) != PL_OK)
            return p;
        if (pl_launch_prepared(one, stream, args, 2, &e) != PL_OK)
            return p;
        pl_prepared_destroy(one);
    }
    return NULL;
}

START_TEST(eviction_beside_prepares)
{
    pthread_t preparer, threads[3];
    void *failed;
    nd->is_recording = false;
    nd->max_libraries = 7;
    make_many();
    for (uintptr_t i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_random, (void *)(i + 1)), 0);
    ck_assert_int_eq(pthread_create(&preparer, NULL, prepare_often, args), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    atomic_store(&is_over, true);
    pthread_join(preparer, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_uint_gt(stats().evicted, 0);
    ck_assert_uint_eq(nd->n_unloaded_launches, 0);
}
END_TEST

START_TEST(pinned_modules_stay)
{
    pl_prepared *p[3];
    static const char *const names[3] = {"a", "b", "c"};
    pl_kernel k[3];
    nd->max_libraries = 2;
    for (int i = 0; i < 3; i++) {
        k[i] = kernel;
        k[i].name = names[i];
        pl_status st = pl_prepare(ctx, &k[i], args, 2, NULL, &p[i], &err);
        ck_assert_int_eq(st, i < 2 ? PL_OK : PL_E_NOMEM);
    }
    ck_assert_int_eq(pl_launch_prepared(p[0], stream, args, 2, &err), PL_OK);
    ck_assert_int_eq(pl_launch_prepared(p[0], stream, NULL, 2, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 6110);
    ck_assert_uint_eq(nd->n_calls[ND_LibraryUnload], 0);
    pl_prepared_destroy(p[0]);
    pl_prepared_destroy(p[1]);
}
END_TEST

static Suite *make_suite(void)
{
    const struct launch_group groups[] = {
        {"policies",
         {asynchronous_builds, blocking_beside_asynchronous, ending_with_builds_waiting,
          never_takes_the_nearest_prepared, never_respects_facts, cold_launch_in_a_capture,
          legacy_stream_beside_a_capture}},
        {"contexts",
         {two_cuda_contexts, stream_of_another_device, tensor_of_another_device,
          more_contexts_than_slots, threads_share_one_build}},
        {"eviction",
         {idle_modules_make_room, pinned_modules_stay, eviction_beside_launches,
          pinned_after_being_chosen, eviction_beside_prepares}},
    };
    Suite *s = suite_create("runtime_policy");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        add_group(s, &groups[i]);
    return s;
}
