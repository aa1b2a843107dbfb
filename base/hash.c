#include "base/hash.h"

#include <sha2.h>
#include <xxhash.h>

uint64_t pl_hash64(const void *data, size_t n_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, n_bytes, seed);
}

struct pl_sha256 pl_sha256_of_parts(size_t n_parts, const void *const data[],
                                    const size_t n_bytes[])
{
    SHA2_CTX c;
    struct pl_sha256 h;
    SHA256Init(&c);
    for (size_t i = 0; i < n_parts; i++)
        SHA256Update(&c, data[i], n_bytes[i]);
    SHA256Final(h.bytes, &c);
    return h;
}

struct pl_sha256 pl_sha256_of(const void *data, size_t n_bytes)
{
    return pl_sha256_of_parts(1, &data, &n_bytes);
}

void pl_sha256_hex(const struct pl_sha256 *h, char out[65])
{
    for (int i = 0; i < 64; i++)
        out[i] = "0123456789abcdef"[h->bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    out[64] = '\0';
}
