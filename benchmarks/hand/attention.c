/* Attention without a maximum. A share of a head's rows goes along the keys block by block: a block
 * is laid out in lines; then, ROWS rows at a time, their weights are added up in registers, raised
 * to powers there, and multiplied with the values while both are in the nearest caches.
 *
 * Where queries and keys are normalised, their products are scaled: by what the squares of a row
 * of queries come to, and of a block's keys, which are added up where both are laid out. */
#include <math.h>

#include "pool.h"
#include "tile.h"

enum {
    FEATURES = 64,
    VECTORS = FEATURES / LANES,
    STEPS = FEATURES >> HALF,
    KEYS = 256,  /* of a block */
    SHARE = 128, /* rows of a head */
    ACROSS = 2,  /* vectors in registers, of keys */
    BESIDE = 2,  /* and of values */
};

static const float LOG2_E = 1.44269504f;

typedef struct {
    long rows, keys;
    const char *q, *k, *v;
    char *o;
} Attention;

/* Of one thread. */
typedef struct {
    __m512 keys[KEYS / LANES * STEPS], values[KEYS * VECTORS >> HALF];
    __m512 weights[ROWS * KEYS / LANES >> HALF];
    __m512 sums[SHARE * VECTORS], totals[SHARE], scales[KEYS / LANES];
    int queries[SHARE * STEPS];
    float factors[SHARE];
} Room;

static Room rooms[THREADS];

/* Two neighbouring rows of 32 bf16 as two lines. */
INLINE void interleave(const char *above, const char *below, __m512i *lines) {
    for (int line = 0; line < 2; line++) {
        __m256i high = _mm256_loadu_si256((const __m256i *)below + line);
        __m256i low = _mm256_loadu_si256((const __m256i *)above + line);
        __m512i shifted = _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16);
        lines[line] = _mm512_or_si512(shifted, _mm512_cvtepu16_epi32(low));
    }
}

/* The squares of a line's items are added to those of others. */
INLINE __m512 squared(__m512 line, __m512 sums) {
#if HALF
    return _mm512_dpbf16_ps(sums, (__m512bh)line, (__m512bh)line);
#else
    return _mm512_fmadd_ps(line, line, sums);
#endif
}

/* By what a row of queries is multiplied; that exp is a power of two is in it. */
INLINE float factor(const char *from, int normed) {
    if (!normed) return LOG2_E;
    __m512 sums = _mm512_setzero_ps();
    EACH(at, STEPS / LANES) sums = squared(_mm512_loadu_ps(from + at * LINE), sums);
    return LOG2_E * sqrtf(FEATURES / _mm512_reduce_add_ps(sums));
}

/* Items of ROWS rows step by step, then of the next rows. Floats are scaled, which bf16 cannot be
 * without loss. */
INLINE void lay_out_queries(const char *from, long rows, int *items, float *factors, int normed) {
    for (long row = 0; row < rows; row++) {
        float by = factors[row] = factor(from + row * FEATURES * ELEMENT, normed);
        int *to = items + row / ROWS * ROWS * STEPS + row % ROWS;
        for (int at = 0; at < STEPS; at++) {
#if HALF
            to[at * ROWS] = ((const int *)from)[row * STEPS + at];
#else
            ((float *)to)[at * ROWS] = ((const float *)from)[row * STEPS + at] * by;
#endif
        }
    }
}

/* Panels of keys, each step by step. */
static void lay_out_keys(const char *from, long down, __m512 *lines) {
    for (int at = 0; at < STEPS; at++)
        for (int line = 0; line < KEYS / LANES; line += 2) {
            __m512i two[2];
#if HALF
            const char *above = from + 2 * at * down + line * LINE / 2;
            interleave(above, above + down, two);
#else
            for (int one = 0; one < 2; one++)
                two[one] = _mm512_loadu_si512(from + at * down + (line + one) * LINE);
#endif
            for (int one = 0; one < 2; one++) {
                int panel = (line + one) / ACROSS, place = (line + one) % ACROSS;
                lines[(panel * STEPS + at) * ACROSS + place] = _mm512_castsi512_ps(two[one]);
            }
        }
}

/* By what the products with a block's keys are multiplied. */
static void scale_keys(const __m512 *lines, __m512 *scales) {
    const __m512 features = _mm512_set1_ps(FEATURES);
    for (int panel = 0; panel < KEYS / LANES / ACROSS; panel++, lines += STEPS * ACROSS) {
        __m512 sums[ACROSS];
        EACH(v, ACROSS) sums[v] = _mm512_setzero_ps();
        for (int at = 0; at < STEPS; at++)
            EACH(v, ACROSS) sums[v] = squared(lines[at * ACROSS + v], sums[v]);
        EACH(v, ACROSS)
            scales[panel * ACROSS + v] = _mm512_sqrt_ps(_mm512_div_ps(features, sums[v]));
    }
}

/* Rows of values, two by two where they are bf16. */
static void lay_out_values(const char *from, __m512 *lines) {
    for (int at = 0; at < KEYS >> HALF; at++)
        for (int line = 0; line < VECTORS; line += 2) {
            __m512 *to = lines + at * VECTORS + line;
#if HALF
            const char *above = from + 2 * at * FEATURES * 2 + line * LINE / 2;
            interleave(above, above + FEATURES * 2, (__m512i *)to);
#else
            for (int one = 0; one < 2; one++)
                to[one] = _mm512_loadu_ps(from + (at * VECTORS + line + one) * LINE);
#endif
        }
}

/* The weights of ROWS rows for the keys of a block. */
INLINE void weigh(Room *room, long row, int normed) {
    const int *queries = room->queries + row * STEPS;
    const __m512 *keys = room->keys;
    const float *factors = room->factors + row;
    for (int at = 0; at < KEYS / LANES; at += ACROSS, keys += STEPS * ACROSS) {
        __m512 sums[ROWS * ACROSS];
        EACH(each, ROWS * ACROSS) sums[each] = _mm512_setzero_ps();
        tile(ROWS, ACROSS, STEPS, queries, 1, ROWS, (const char *)keys, ACROSS * LINE, 0, sums);
        EACH(r, ROWS) {
            __m512 total = room->totals[row + r];
            EACH(v, ACROSS) {
                __m512 x = sums[r * ACROSS + v];
                if (normed) x = _mm512_mul_ps(x, room->scales[at + v]);
                if (HALF) x = _mm512_mul_ps(x, _mm512_set1_ps(normed ? factors[r] : LOG2_E));
                __m512 weight = power(x);
                total = _mm512_add_ps(total, weight);
                put((char *)room->weights + (r * KEYS + (at + v) * LANES) * ELEMENT, weight);
            }
            room->totals[row + r] = total;
        }
    }
}

/* Adds to the sums of ROWS rows their weights times the values of a block. */
INLINE void add_up(const char *weights, const __m512 *values, __m512 *sums) {
    for (int part = 0; part < VECTORS; part += BESIDE) {
        __m512 own[ROWS * BESIDE];
        EACH(r, ROWS) EACH(v, BESIDE) own[r * BESIDE + v] = sums[r * VECTORS + part + v];
        tile(ROWS, BESIDE, KEYS >> HALF, (const int *)weights, KEYS >> HALF, 1,
             (const char *)(values + part), VECTORS * LINE, 0, own);
        EACH(r, ROWS) EACH(v, BESIDE) sums[r * VECTORS + part + v] = own[r * BESIDE + v];
    }
}

/* A share of the rows of a head. */
INLINE void share(const Attention *job, long part, Room *room, int normed) {
    long shares = (job->rows + SHARE - 1) / SHARE, head = part / shares;
    long first = part % shares * SHARE, left = job->rows - first;
    long rows = left < SHARE ? left : SHARE, row_bytes = FEATURES * ELEMENT;
    long offset = (head * job->rows + first) * row_bytes, before = head * job->keys * row_bytes;
    lay_out_queries(job->q + offset, rows, room->queries, room->factors, normed);
    for (long at = 0; at < rows * VECTORS; at++) room->sums[at] = _mm512_setzero_ps();
    for (long at = 0; at < rows; at++) room->totals[at] = _mm512_setzero_ps();
    for (long key = 0; key < job->keys; key += KEYS) {
        lay_out_keys(job->k + before + key * ELEMENT, job->keys * ELEMENT, room->keys);
        if (normed) scale_keys(room->keys, room->scales);
        lay_out_values(job->v + before + key * row_bytes, room->values);
        for (long row = 0; row < rows; row += ROWS) {
            weigh(room, row, normed);
            add_up((const char *)room->weights, room->values, room->sums + row * VECTORS);
        }
    }
    for (long row = 0; row < rows; row++) {
        __m512 total = _mm512_set1_ps(_mm512_reduce_add_ps(room->totals[row]));
        for (int v = 0; v < VECTORS; v++)
            put(job->o + offset + row * row_bytes + v * LANES * ELEMENT,
                _mm512_div_ps(room->sums[row * VECTORS + v], total));
    }
}

static void plain(void *job, long part, int thread) { share(job, part, rooms + thread, 0); }
static void normed(void *job, long part, int thread) { share(job, part, rooms + thread, 1); }

/* There have to be 64 features, whole blocks of keys, and rows by the ROWS. */
static void run(Work work, long heads, Attention job) {
    pool_run(work, &job, heads * ((job.rows + SHARE - 1) / SHARE));
}

void gqa(long heads, long rows, long keys, const void *q, const void *k, const void *v, void *o) {
    run(plain, heads, (Attention){rows, keys, q, k, v, o});
}

void qk_norm(long heads, long rows, long keys, const void *q, const void *k, const void *v,
             void *o) {
    run(normed, heads, (Attention){rows, keys, q, k, v, o});
}
