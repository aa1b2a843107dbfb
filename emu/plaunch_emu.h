#ifndef PL_EMU_PLAUNCH_EMU_H
#define PL_EMU_PLAUNCH_EMU_H
/*
 * What libplaunch-emu.so exports beside the CUDA Driver API: set-up, counters and the text of the last fault. Found by
 * dlsym, so that a program built for the real driver needs no other header; also callable between launches.
 *
 * Configuration: a key that was never set takes its default from the environment when cuInit runs.
 *
 *   key               value                          environment             default   when it may change
 *   arch              sm_90a, 90, …                  PLAUNCH_EMU_ARCH        sm_90a    before cuInit, or after "reset"
 *   devices           a count, or a list of archs    PLAUNCH_EMU_DEVICES     1         before cuInit, or after "reset"
 *   sms               1..1024                        PLAUNCH_EMU_SMS         4         before cuInit, or after "reset"
 *   memory_bytes      bytes a device                 PLAUNCH_EMU_MEMORY      the chip  before cuInit, or after "reset"
 *   driver_version    13000, …                       PLAUNCH_EMU_DRIVER_VERSION 13000  any time
 *   async             eager, late, random:SEED       PLAUNCH_EMU_ASYNC       eager     any time
 *   check             off, faults, race              PLAUNCH_EMU_CHECK       faults    any time
 *   threads           0 (one a CPU) or a count       PLAUNCH_EMU_THREADS     0         any time
 *   step_limit        warp instructions a cluster    PLAUNCH_EMU_STEP_LIMIT  0 (none)  any time
 *   stack_bytes       local memory of recursion      -                       0 (64 KiB) any time
 *   report            off, stderr                    PLAUNCH_EMU_REPORT      off       any time; where faults are printed
 *   printf            off, stdout, stderr            PLAUNCH_EMU_PRINTF      stdout    any time; printf of kernels
 *   max_libraries     0 (no limit) or a count        -                       0         any time; beyond it loads give 2
 *   fail              cuFunction:N:CODE              -                       -         the N-th call from now gives CODE,
 *                     cuFunction:N+:CODE             -                       -         and so do all after it;
 *                     "" drops all rules
 *   reset             1, all                         -                       -         back to before cuInit, all handles
 *                                                                                      gone; all: values too
 *
 * Counters of plaunch_emu_query: see emu/counter.def, and calls:cuFunction (calls of one function, by name or symbol).
 */
#include <stddef.h>
#include <stdint.h>

#define PLAUNCH_EMU_API __attribute__((visibility("default")))

PLAUNCH_EMU_API const char *plaunch_emu_version(void); /* "0.1.0" */

/* 0, or a CUresult: 1 for an unknown key or value, 401 for a key that may not change now. */
PLAUNCH_EMU_API int plaunch_emu_configure(const char *key, const char *value);

/* UINT64_MAX for an unknown counter. */
PLAUNCH_EMU_API uint64_t plaunch_emu_query(const char *counter);

/*
 * The report of the fault that came last in this process: several lines for a deadlock, "" when there was none. Copies at
 * most n_bytes with the NUL; returns the length of the whole text.
 */
PLAUNCH_EMU_API size_t plaunch_emu_last_fault(char *text, size_t n_bytes);
#endif
