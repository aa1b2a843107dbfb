#ifndef PL_TESTS_PTXAS_H
#define PL_TESTS_PTXAS_H
/* The assembler and the compiler of a CUDA toolkit, where there is one: PL_CUDA_HOME/bin/…, else on PATH. */
#include <stdbool.h>
#include <stddef.h>

/* NULL: none; a test then skips. */
const char *ptxas_path(void);
const char *nvcc_path(void);

/*
 * Assemble text for arch ("sm_90a") to a cubin in memory, freed by the caller; NULL where ptxas refuses, with its first line
 * of complaint in why (at least 200 bytes).
 */
unsigned char *ptxas_assemble(const char *text, const char *arch, size_t *n_bytes, char *why);

/* Compile a CUDA C++ file for arch to PTX text, freed by the caller; NULL as above. */
char *nvcc_compile(const char *source, const char *arch, size_t *n_bytes, char *why);

/* The named section of an ELF64 image, inside it; NULL when it has none. */
const unsigned char *elf_section(const unsigned char *elf, size_t elf_n_bytes, const char *name,
                                 size_t *n_bytes);

#endif
