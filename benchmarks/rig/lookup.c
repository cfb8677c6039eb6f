/* SPDX-License-Identifier: Apache-2.0 */
/* What C makes of the exact table's own memory: the yardstick of benchmarks/lookups.py.
 *
 * `in_buckets` looks up in the very table that nicemu has filled, in the same three steps; `direct` in a table
 * of the plain layout: entries of 64 bytes in a hash table with linear probing, at most half full. */
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

typedef uint64_t word;
#define BATCH 32
#define ROOM 256 /* what is found is kept for so many lookups */

static inline word fold(word one, word other)
{
    unsigned __int128 product = (unsigned __int128)one * other;
    return (word)(product >> 64) ^ (word)product;
}

static inline word hash_of(const word *key)
{
    return fold(key[1] ^ fold(key[0] ^ 0x9E3779B97F4A7C15u, 0xD6E8FEB86659FD93u), 0xD6E8FEB86659FD93u);
}

static inline uint32_t matching(const uint32_t *line, uint32_t wanted, uint32_t mask)
{
#if defined(__AVX512F__)
    __m512i slots = _mm512_and_si512(_mm512_load_si512(line), _mm512_set1_epi32((int)mask));
    return _mm512_cmpeq_epi32_mask(slots, _mm512_set1_epi32((int)wanted)) & 0x7fff;
#elif defined(__AVX2__)
    uint32_t found = 0;
    for (int part = 0; part < 2; part++) {
        __m256i slots = _mm256_load_si256((const __m256i *)line + part);
        slots = _mm256_and_si256(slots, _mm256_set1_epi32((int)mask));
        __m256i same = _mm256_cmpeq_epi32(slots, _mm256_set1_epi32((int)wanted));
        found |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same)) << 8 * part;
    }
    return found & 0x7fff;
#elif defined(__SSE2__)
    uint32_t found = 0;
    for (int part = 0; part < 4; part++) {
        __m128i slots = _mm_load_si128((const __m128i *)line + part);
        slots = _mm_and_si128(slots, _mm_set1_epi32((int)mask));
        __m128i same = _mm_cmpeq_epi32(slots, _mm_set1_epi32((int)wanted));
        found |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(same)) << 4 * part;
    }
    return found & 0x7fff;
#else
    uint32_t found = 0;
    for (int slot = 0; slot < 15; slot++)
        found |= (uint32_t)((line[slot] & mask) == wanted) << slot;
    return found;
#endif
}

static inline uint32_t tag(word digest, uint32_t mask)
{
    return ((uint32_t)(digest >> 32) | 1u << 31) & mask;
}

/* The words of a table's state as nicemu/lookup/entries.py has them: entries, stride, limbs, offset of the
 * parameters, buckets, bucket mask, tag mask. Keys are two limbs. */
void in_buckets(const word *state, const word *keys, word count, word *found)
{
    const char *entries = (const char *)state[0], *buckets = (const char *)state[4];
    const word stride = state[1], bucket_mask = state[5];
    const uint32_t mask = (uint32_t)state[6];

    for (word done = 0; done < count; done += BATCH) {
        word end = done + BATCH < count ? done + BATCH : count, digests[BATCH];
        for (word place = done; place < end; place++) {
            word digest = digests[place - done] = hash_of(keys + 2 * place);
            __builtin_prefetch(buckets + 64 * (digest & bucket_mask));
        }
        for (word place = done; place < end; place++) {
            word digest = digests[place - done];
            const uint32_t *line = (const uint32_t *)(buckets + 64 * (digest & bucket_mask));
            uint32_t same = matching(line, tag(digest, mask), mask);
            if (same)
                __builtin_prefetch(entries + stride * (line[__builtin_ctz(same)] & ~mask));
        }
        for (word place = done; place < end; place++) {
            word digest = digests[place - done], home = digest & bucket_mask, entry = 0, head = 0;
            uint32_t wanted = tag(digest, mask);
            for (;;) {
                const uint32_t *line = (const uint32_t *)(buckets + 64 * home);
                for (uint32_t same = matching(line, wanted, mask); same; same &= same - 1) {
                    const word *record = (const word *)(entries + stride * (line[__builtin_ctz(same)] & ~mask));
                    if (record[4] == keys[2 * place] && record[5] == keys[2 * place + 1]) {
                        entry = (word)record;
                        head = record[0];
                        goto next;
                    }
                }
                if (!line[15])
                    break;
                home = (home + 1) & bucket_mask;
            }
        next:
            found[2 * (place % ROOM)] = entry;
            found[2 * (place % ROOM) + 1] = head;
        }
    }
}

struct plain {
    word head, counts[3], key[2], parameters[2];
};

void fill_direct(struct plain *table, word mask, const word *keys, word count)
{
    for (word place = 0; place < count; place++) {
        word slot = hash_of(keys + 2 * place) >> 20 & mask;
        while (table[slot].head)
            slot = (slot + 1) & mask;
        table[slot].head = place + 1;
        memcpy(table[slot].key, keys + 2 * place, 16);
    }
}

void direct(const struct plain *table, word mask, const word *keys, word count, word *found)
{
    for (word done = 0; done < count; done += BATCH) {
        word end = done + BATCH < count ? done + BATCH : count, slots[BATCH];
        for (word place = done; place < end; place++) {
            slots[place - done] = hash_of(keys + 2 * place) >> 20 & mask;
            __builtin_prefetch(table + slots[place - done]);
        }
        for (word place = done; place < end; place++) {
            word slot = slots[place - done], entry = 0, head = 0;
            for (; table[slot].head; slot = (slot + 1) & mask)
                if (table[slot].key[0] == keys[2 * place] && table[slot].key[1] == keys[2 * place + 1]) {
                    entry = (word)(table + slot);
                    head = table[slot].head;
                    break;
                }
            found[2 * (place % ROOM)] = entry;
            found[2 * (place % ROOM) + 1] = head;
        }
    }
}
