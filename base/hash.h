#ifndef PL_BASE_HASH_H
#define PL_BASE_HASH_H
/* Hashes: xxHash for tables in memory (never persisted), SHA-256 (libmd) for content keys and file checksums. */
#include <stddef.h>
#include <stdint.h>

struct pl_sha256 {
    uint8_t bytes[32];
};

uint64_t pl_hash64(const void *data, size_t n_bytes, uint64_t seed);
struct pl_sha256 pl_sha256_of(const void *data, size_t n_bytes);
struct pl_sha256 pl_sha256_of_parts(size_t n_parts, const void *const data[],
                                    const size_t n_bytes[]);
void pl_sha256_hex(const struct pl_sha256 *h, char out[65]); /* lower case, NUL-terminated */
#endif
