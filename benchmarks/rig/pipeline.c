/* SPDX-License-Identifier: Apache-2.0 */
/* What C makes of the program of benchmarks/match_action.py: the same packets, records and table entries.
 *
 * In groups of 48, as kernels go: the key of each is found and the memory of its lookup fetched, then each packet is
 * looked up, counted and rewritten, while the frames of the next group are fetched. The words of a table's state are as
 * nicemu/lookup/entries.py has them.
 *
 * And how fast the memory alone would be: `touch` reads and writes the lines that a packet needs, which `lines_of` has
 * told it, and does nothing else. */
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef uint64_t word;
#define GROUP 48
#define AHEAD 32

struct packet {
    uint64_t address;
    uint32_t length, port;
    uint64_t now_ns;
    uint16_t verdict, reason;
    uint32_t out_port;
    int32_t out_offset;
    uint32_t out_length, effects_at, effects_count;
    uint32_t unused[4];
};

static inline word fold(word one, word other)
{
    unsigned __int128 product = (unsigned __int128)one * other;
    return (word)(product >> 64) ^ (word)product;
}

static inline uint32_t matching(const uint32_t *line, uint32_t wanted, uint32_t mask)
{
#if defined(__AVX512F__)
    __m512i slots = _mm512_and_si512(_mm512_load_si512(line), _mm512_set1_epi32((int)mask));
    return _mm512_cmpeq_epi32_mask(slots, _mm512_set1_epi32((int)wanted)) & 0x7fff;
#else
    uint32_t found = 0;
    for (int slot = 0; slot < 15; slot++)
        found |= (uint32_t)((line[slot] & mask) == wanted) << slot;
    return found;
#endif
}

/* Whether a frame is Ethernet, IPv4, UDP and a KV request, whole. */
static inline int is_request(const uint8_t *frame, uint32_t length)
{
    uint16_t ethertype, port;
    if (length < 74)
        return 0;
    memcpy(&ethertype, frame + 12, 2);
    memcpy(&port, frame + 36, 2);
    return ethertype == 0x0008 && frame[23] == 17 && port == 0x564b;
}

static inline void key_of(const uint8_t *frame, word *key)
{
    memcpy(key, frame + 58, 16);
    key[0] = __builtin_bswap64(key[0]);
    key[1] = __builtin_bswap64(key[1]);
}

static inline word digest_of(const word *key)
{
    return fold(key[1] ^ fold(key[0] ^ 0x9E3779B97F4A7C15u, 0xD6E8FEB86659FD93u), 0xD6E8FEB86659FD93u);
}

void run(word *context, struct packet *packets, word count, word ahead)
{
    const word *state = (const word *)context[0];
    const char *entries = (const char *)state[0], *buckets = (const char *)state[4];
    const word stride = state[1], parameters = state[3], bucket_mask = state[5];
    const uint32_t mask = (uint32_t)state[6];

    for (word done = 0; done < count; done += GROUP) {
        word end = done + GROUP < count ? done + GROUP : count, digests[GROUP], keys[GROUP][2];
        for (word place = done; place < end; place++) {
            const uint8_t *frame = (const uint8_t *)packets[place].address;
            if (!is_request(frame, packets[place].length))
                continue;
            word *key = keys[place - done];
            key_of(frame, key);
            word digest = digest_of(key);
            digests[place - done] = digest;
            if (ahead)
                __builtin_prefetch(buckets + 64 * (digest & bucket_mask));
        }
        for (word place = done; ahead && place < end; place++) {
            if (!is_request((const uint8_t *)packets[place].address, packets[place].length))
                continue;
            word digest = digests[place - done];
            const uint32_t *line = (const uint32_t *)(buckets + 64 * (digest & bucket_mask));
            uint32_t wanted = ((uint32_t)(digest >> 32) | 1u << 31) & mask, same = matching(line, wanted, mask);
            if (same)
                __builtin_prefetch(entries + stride * (line[__builtin_ctz(same)] & ~mask));
        }
        for (word place = done; place < end; place++) {
            struct packet *packet = packets + place;
            uint8_t *frame = (uint8_t *)packet->address;
            word *record = 0;
            if (ahead) {
                const struct packet *further = packets + (place + GROUP < count ? place + GROUP : place);
                __builtin_prefetch(further + GROUP);
                __builtin_prefetch((const char *)further->address);
                __builtin_prefetch((const char *)further->address + 64);
            }
            packet->reason = 0;
            packet->out_offset = 0;
            packet->out_length = packet->length;
            packet->effects_count = 0;
            if (!is_request(frame, packet->length)) {
                packet->verdict = 2;
                packet->out_port = 0;
                continue;
            }
            word digest = digests[place - done], home = digest & bucket_mask, *key = keys[place - done];
            uint32_t wanted = ((uint32_t)(digest >> 32) | 1u << 31) & mask;
            for (;;) {
                const uint32_t *line = (const uint32_t *)(buckets + 64 * home);
                for (uint32_t same = matching(line, wanted, mask); same; same &= same - 1) {
                    word *found = (word *)(entries + stride * (line[__builtin_ctz(same)] & ~mask));
                    if (found[4] == key[0] && found[5] == key[1]) {
                        record = found;
                        goto next;
                    }
                }
                if (!line[15])
                    break;
                home = (home + 1) & bucket_mask;
            }
        next:
            if (!record) {
                context[3]++;
                packet->verdict = 0;
                packet->out_port = 0;
                continue;
            }
            context[2]++;
            record[1]++;
            record[2] += packet->length;
            record[3] = packet->now_ns;
            const word *data = (const word *)((const char *)record + parameters);
            word destination = __builtin_bswap64(data[0]), source = __builtin_bswap64(data[1] << 16 | 0x0800);
            memcpy(frame, &destination, 6);
            memcpy(frame + 6, &source, 8);
            frame[22]--;
            packet->verdict = 1;
            packet->out_port = data[0] & 0xffff;
        }
    }
}

struct lines {
    const uint32_t *bucket;
    word *record;
};

/* Tell the lines of each packet's lookup; they are all requests, and there. */
void lines_of(const word *context, const struct packet *packets, word count, struct lines *found)
{
    const word *state = (const word *)context[0];
    const char *entries = (const char *)state[0], *buckets = (const char *)state[4];
    const word stride = state[1], bucket_mask = state[5];
    const uint32_t mask = (uint32_t)state[6];

    for (word place = 0; place < count; place++) {
        word key[2];
        key_of((const uint8_t *)packets[place].address, key);
        word digest = digest_of(key), home = digest & bucket_mask;
        uint32_t wanted = ((uint32_t)(digest >> 32) | 1u << 31) & mask;
        for (found[place].record = 0; !found[place].record; home = (home + 1) & bucket_mask) {
            const uint32_t *line = found[place].bucket = (const uint32_t *)(buckets + 64 * home);
            for (uint32_t same = matching(line, wanted, mask); same; same &= same - 1) {
                word *record = (word *)(entries + stride * (line[__builtin_ctz(same)] & ~mask));
                if (record[4] == key[0] && record[5] == key[1])
                    found[place].record = record;
            }
        }
    }
}

/* Read a word of each line of a packet, and change one of the three that `run` changes. */
void touch(const struct lines *lines, struct packet *packets, word count)
{
    for (word place = 0; place < count; place++) {
        const word further = place + AHEAD < count ? place + AHEAD : place;
        __builtin_prefetch(lines[further].bucket);
        __builtin_prefetch(lines[further].record);
        __builtin_prefetch(packets + further);
        __builtin_prefetch((const char *)packets[further].address);
        __builtin_prefetch((const char *)packets[further].address + 64);

        word *frame = (word *)packets[place].address, *record = lines[place].record;
        record[1] += frame[8];
        frame[0] ^= lines[place].bucket[15];
        packets[place].reason = (uint16_t)record[6];
    }
}
