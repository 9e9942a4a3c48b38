/* A step of a normalised transformer, row by row: rms(x + alpha * (rms(h) + x)). What lies between
 * the two sums of squares stays in the nearest cache. */
#include <math.h>

#include "pool.h"
#include "tile.h"

enum { BESIDE = 4 }; /* vectors that are added up side by side */

typedef struct {
    long features;
    const char *x, *h, *alpha;
    char *y;
} Step;

INLINE __m512 get(const char *from) {
#if HALF
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
#else
    return _mm512_loadu_ps(from);
#endif
}

/* What a row with these sums of squares is multiplied by. */
INLINE __m512 scale(const __m512 *sums, long features) {
    __m512 all = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    return _mm512_set1_ps(sqrtf((float)features / _mm512_reduce_add_ps(all)));
}

static void row(void *given, long part, int thread) {
    const Step *job = given;
    long count = job->features / LANES, offset = part * job->features * ELEMENT;
    const char *x = job->x + offset, *h = job->h + offset, *alpha = job->alpha + offset;
    __m512 between[count], squares[BESIDE], sums[BESIDE];
    (void)thread;
    EACH(v, BESIDE) squares[v] = sums[v] = _mm512_setzero_ps();
    for (long at = 0; at < count; at += BESIDE) EACH(v, BESIDE) {
        __m512 each = get(h + (at + v) * LANES * ELEMENT);
        squares[v] = _mm512_fmadd_ps(each, each, squares[v]);
    }
    __m512 by = scale(squares, job->features);
    for (long at = 0; at < count; at += BESIDE) EACH(v, BESIDE) {
        long place = (at + v) * LANES * ELEMENT;
        __m512 old = get(x + place), moved = _mm512_fmadd_ps(get(h + place), by, old);
        __m512 each = _mm512_fmadd_ps(get(alpha + place), moved, old);
        between[at + v] = each;
        sums[v] = _mm512_fmadd_ps(each, each, sums[v]);
    }
    by = scale(sums, job->features);
    for (long at = 0; at < count; at++)
        put(job->y + offset + at * LANES * ELEMENT, _mm512_mul_ps(between[at], by));
}

/* The features have to be whole BESIDEs of vectors. */
void ntrans(long rows, long features, const void *x, const void *h, const void *alpha, void *y) {
    Step job = {features, x, h, alpha, y};
    pool_run(row, &job, rows);
}
