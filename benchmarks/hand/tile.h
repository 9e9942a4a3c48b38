/* Products in registers. A line is a vector of 64 bytes: sixteen columns, each a float, or where
 * HALF is 1 two bf16 that are neighbours down a column. An item is what meets each column of a
 * line: a float, or two neighbours along a row. So both types take the same steps. */
#pragma once

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#define EACH(name, count) _Pragma("GCC unroll 32") for (int name = 0; name < (count); name++)

enum { LINE = 64, LANES = 16, MOST = 8, ELEMENT = HALF ? 2 : 4 };

INLINE __m512 step(__m512 sum, __m512i line, int item) {
    __m512i items = _mm512_set1_epi32(item);
#if HALF
    return _mm512_dpbf16_ps(sum, (__m512bh)line, (__m512bh)items);
#else
    return _mm512_fmadd_ps(_mm512_castsi512_ps(line), _mm512_castsi512_ps(items), sum);
#endif
}

/* Adds to sums[rows][vectors] the products over so many steps. Items are `row` apart from row to
 * row and `next` from step to step, lines `down` bytes from step to step. Lines are asked for
 * `ahead` bytes before they are used, unless that is 0. */
INLINE void tile(int rows, int vectors, long steps, const int *items, long row, long next,
                 const char *lines, long down, long ahead, __m512 *sums) {
#pragma GCC unroll 4
    for (long at = 0; at < steps; at++) {
        __m512i line[MOST];
        EACH(v, vectors) {
            if (ahead) _mm_prefetch(lines + at * down + v * LINE + ahead, _MM_HINT_T0);
            line[v] = _mm512_loadu_si512(lines + at * down + v * LINE);
        }
        EACH(r, rows) EACH(v, vectors) {
            __m512 *sum = sums + r * vectors + v;
            *sum = step(*sum, line[v], items[at * next + r * row]);
        }
    }
}

/* Stores sixteen results. */
INLINE void put(void *to, __m512 value) {
#if HALF
    _mm256_storeu_si256(to, (__m256i)_mm512_cvtneps_pbh(value));
#else
    _mm512_storeu_ps(to, value);
#endif
}

/* Two to a power: the part behind the point by a polynomial, minimax of the relative error over
 * [0, 1), then the whole part as an exponent. Of what will be rounded to bf16 it is wrong by 2^-13.7
 * at most, else by 2^-22.6. */
INLINE __m512 power(__m512 x) {
    static const float factors[] = {
#if HALF
        0.07802452f, 0.22606716f, 0.69583356f, 0.99992520f
#else
        0.0018775767f, 0.0089893397f, 0.055826318f, 0.24015361f, 0.69315308f, 0.99999994f
#endif
    };
    __m512 rest = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF), value = _mm512_set1_ps(factors[0]);
    for (unsigned at = 1; at < sizeof factors / sizeof *factors; at++)
        value = _mm512_fmadd_ps(value, rest, _mm512_set1_ps(factors[at]));
    return _mm512_scalef_ps(value, x);
}
