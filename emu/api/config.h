#ifndef PL_EMU_API_CONFIG_H
#define PL_EMU_API_CONFIG_H
/* Configuration of the emulated driver: the table of keys, their values from the environment and from plaunch_emu_configure. */
#include "emu/cuda_abi.h"

/* Give each key that was not set by hand the value of its variable. 1 where a variable has an impossible value. Under the
 * lock; once before cuInit makes the devices. */
CUresult pl_config_read_environment(void);
#endif
