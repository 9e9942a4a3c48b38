/* Products of a few rows with weights that were laid out in panels: panels, steps, lines.
 *
 * A panel is as wide as the sums of ROWS rows that registers hold, VECTORS. Its lines are read once,
 * in the order in which they lie. Panels are dealt out one by one. */
#include "rows.h"

enum {
    WIDTH = VECTORS * LANES,
    SUMS = ROWS * VECTORS,
    PIECE = 512,                 /* steps that are added up by themselves */
    AHEAD = ROWS > 8 ? 2048 : 0, /* with fewer rows the processor fetches soon enough by itself */
};

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

/* The columns have to be whole panels. */
void rms_norm(long depth, long columns, const void *x, const void *w, void *y) {
    run(normed, (Linear){depth >> HALF, columns, x, w, 0, y, 0, 0, {0}}, columns / WIDTH);
}

void gated_mlp(long depth, long columns, const void *x, const void *gate, const void *up, void *y) {
    run(gated, (Linear){depth >> HALF, columns, x, gate, up, y, 0, 0, {0}}, columns / WIDTH);
}
