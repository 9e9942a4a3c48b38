/* Products of a few rows with weights that were laid out in panels: panels, steps, lines.
 *
 * A panel is as wide as the sums of ROWS rows that registers hold, VECTORS. Its lines are read once,
 * in the order in which they lie; rows lie step by step, so that what meets a line is side by side.
 * Panels are dealt out one by one. */
#include <math.h>
#include <stdlib.h>

#include "pool.h"
#include "tile.h"

enum {
    WIDTH = VECTORS * LANES,
    SUMS = ROWS * VECTORS,
    PIECE = 512,                 /* steps that are added up by themselves */
    BLOCK = 256,                 /* steps that are laid out at once */
    AHEAD = ROWS > 8 ? 2048 : 0, /* with fewer rows the processor fetches soon enough by itself */
};

typedef struct {
    long steps, columns;
    const int *x;
    const char *first, *second;
    char *y;
    int *items;
    float *squares, scales[ROWS];
} Linear;

/* Lays out a block of steps of all rows, and adds up their squares. */
static void lay_out(void *given, long part, int thread) {
    Linear *job = given;
    long begin = part * BLOCK, end = begin + BLOCK < job->steps ? begin + BLOCK : job->steps;
    (void)thread;
    for (int row = 0; row < ROWS; row++) {
        const int *from = job->x + row * job->steps;
        __m512 squares = _mm512_setzero_ps();
        for (long at = begin; at < end; at++) job->items[at * ROWS + row] = from[at];
        for (long at = begin; at < end; at += LANES) {
            __m512i items = _mm512_loadu_si512(from + at);
#if HALF
            squares = _mm512_dpbf16_ps(squares, (__m512bh)items, (__m512bh)items);
#else
            __m512 x = _mm512_castsi512_ps(items);
            squares = _mm512_fmadd_ps(x, x, squares);
#endif
        }
        job->squares[part * ROWS + row] = _mm512_reduce_add_ps(squares);
    }
}

/* The sums of a panel: long ones are sums of shorter ones, which is more exact. */
INLINE void add_up(const Linear *job, const char *lines, __m512 *totals) {
    EACH(at, SUMS) totals[at] = _mm512_setzero_ps();
    for (long begin = 0; begin < job->steps; begin += PIECE) {
        long left = job->steps - begin;
        __m512 sums[SUMS];
        EACH(at, SUMS) sums[at] = _mm512_setzero_ps();
        tile(ROWS, VECTORS, left < PIECE ? left : PIECE, job->items + begin * ROWS, 1, ROWS,
             lines + begin * VECTORS * LINE, VECTORS * LINE, AHEAD, sums);
        EACH(at, SUMS) totals[at] = _mm512_add_ps(totals[at], sums[at]);
    }
}

INLINE __m512 silu(__m512 x) {
    __m512 grown = power(_mm512_mul_ps(x, _mm512_set1_ps(-(float)M_LOG2E)));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1), grown));
}

INLINE void panel(const Linear *job, long part, int gated) {
    long offset = part * job->steps * VECTORS * LINE;
    __m512 sums[SUMS], others[SUMS];
    add_up(job, job->first + offset, sums);
    if (gated) add_up(job, job->second + offset, others);
    EACH(r, ROWS) EACH(v, VECTORS) {
        __m512 sum = sums[r * VECTORS + v];
        sum = gated ? _mm512_mul_ps(silu(sum), others[r * VECTORS + v])
                    : _mm512_mul_ps(sum, _mm512_set1_ps(job->scales[r]));
        put(job->y + (r * job->columns + part * WIDTH + v * LANES) * ELEMENT, sum);
    }
}

static void normed(void *job, long part, int thread) { (void)thread, panel(job, part, 0); }
static void gated(void *job, long part, int thread) { (void)thread, panel(job, part, 1); }

static void run(Work work, Linear job) {
    long parts = (job.steps + BLOCK - 1) / BLOCK;
    job.items = aligned_alloc(LINE, (size_t)(job.steps * ROWS) * sizeof(int));
    job.squares = malloc((size_t)parts * ROWS * sizeof(float));
    pool_run(lay_out, &job, parts);
    for (int row = 0; row < ROWS; row++) {
        float sum = 0;
        for (long part = 0; part < parts; part++) sum += job.squares[part * ROWS + row];
        job.scales[row] = sqrtf((float)(job.steps * (1 + HALF)) / sum);
    }
    pool_run(work, &job, job.columns / WIDTH);
    free(job.items);
    free(job.squares);
}

/* The depth has to be whole lines of items, the columns whole panels. */
void rms_norm(long depth, long columns, const void *x, const void *w, void *y) {
    run(normed, (Linear){depth >> HALF, columns, x, w, 0, y, 0, 0, {0}});
}

void gated_mlp(long depth, long columns, const void *x, const void *gate, const void *up, void *y) {
    run(gated, (Linear){depth >> HALF, columns, x, gate, up, y, 0, 0, {0}});
}
