#ifndef PL_EMU_EXEC_ASYNC_H
#define PL_EMU_EXEC_ASYNC_H
/* Executors of the asynchronous family; which rows of ptx.def each serves: emu/exec/async.def. */
#include "emu/exec.h"

/* emu/exec/mbar.c: PTX ISA, mbarrier */
pl_emu_exec_fn pl_emu_exec_mbar_init, pl_emu_exec_mbar_inval, pl_emu_exec_mbar_tx,
    pl_emu_exec_mbar_arrive, pl_emu_exec_mbar_wait, pl_emu_exec_mbar_pending_count;
/* emu/exec/cp.c: PTX ISA, cp.async; st.async, red.async, st.bulk */
pl_emu_exec_fn pl_emu_exec_cp_async, pl_emu_exec_cp_commit, pl_emu_exec_cp_wait,
    pl_emu_exec_cp_mbar_arrive, pl_emu_exec_st_async, pl_emu_exec_st_async_global,
    pl_emu_exec_st_bulk;
/* emu/exec/tma.c: PTX ISA, cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.tensor */
pl_emu_exec_fn pl_emu_exec_bulk_load, pl_emu_exec_bulk_peer, pl_emu_exec_bulk_store,
    pl_emu_exec_bulk_prefetch, pl_emu_exec_bulk_commit, pl_emu_exec_bulk_wait,
    pl_emu_exec_tensor_load, pl_emu_exec_tensor_store, pl_emu_exec_tensor_prefetch;
/* emu/exec/tmap.c: PTX ISA, tensormap.replace, tensormap.cp_fenceproxy, prefetch.tensormap */
pl_emu_exec_fn pl_emu_exec_tmap_replace, pl_emu_exec_tmap_cp_fenceproxy, pl_emu_exec_tmap_prefetch,
    pl_emu_exec_tmap_acquire;
/* emu/exec/cluster.c: PTX ISA, mapa, getctarank, barrier.cluster, griddepcontrol, setmaxnreg, clusterlaunchcontrol; fences */
pl_emu_exec_fn pl_emu_exec_mapa, pl_emu_exec_getctarank, pl_emu_exec_cluster_arrive,
    pl_emu_exec_cluster_wait, pl_emu_exec_griddepcontrol, pl_emu_exec_setmaxnreg,
    pl_emu_exec_clc_try_cancel, pl_emu_exec_clc_is_canceled, pl_emu_exec_clc_first_ctaid,
    pl_emu_exec_fence_proxy_async, pl_emu_exec_fence_mbarrier_init, pl_emu_exec_fence_order,
    pl_emu_exec_fence_half, pl_emu_exec_tensor_fence;
/* emu/exec/tmem.c, exec_tcgen05*.c: PTX ISA, TensorCore 5th Generation Family Instructions */
pl_emu_exec_fn pl_emu_exec_tmem_alloc, pl_emu_exec_tmem_dealloc, pl_emu_exec_tmem_relinquish,
    pl_emu_exec_tmem_ld, pl_emu_exec_tmem_st, pl_emu_exec_tmem_wait, pl_emu_exec_tc_mma,
    pl_emu_exec_tc_cp, pl_emu_exec_tc_shift, pl_emu_exec_tc_commit;
#endif
