/* Products of a few rows with weights as they lie, row after row.
 *
 * A share of the columns goes down the weights DOWN steps at a time, and along those tile by tile:
 * so memory is read along its rows, DOWN of them side by side. Sums of a tile are in registers,
 * those of the share in the second cache. Lines of later tiles are asked for, of the next steps'
 * first ones at the end. Two rows of bf16 are woven into lines on the way, of which the first has
 * the columns 0 to 3, 8 to 11, and so on, the second those between. */
#include "rows.h"

enum {
    COLUMNS = 2048,             /* of a share */
    DOWN = 8,                   /* steps side by side */
    AHEAD = 4,                  /* tiles */
    HELD = ROWS < 8 ? ROWS : 8, /* rows with sums in registers */
    WIDTH = VECTORS * LANES,
    SUMS = HELD * VECTORS,
};

/* Of one thread: the sums of a share, tile by tile. */
typedef __m512 Room[COLUMNS / LANES * ROWS];

static Room rooms[THREADS][2];

/* A step of a tile. */
INLINE void weave(const char *from, long row_bytes, int fetch, long ahead, __m512i *lines) {
    EACH(v, VECTORS >> HALF) {
        const char *above = from + v * LINE;
        if (fetch) _mm_prefetch(above + ahead, _MM_HINT_T0);
#if HALF
        if (fetch) _mm_prefetch(above + row_bytes + ahead, _MM_HINT_T0);
        __m512i high = _mm512_loadu_si512(above + row_bytes), low = _mm512_loadu_si512(above);
        lines[2 * v] = _mm512_unpacklo_epi16(low, high);
        lines[2 * v + 1] = _mm512_unpackhi_epi16(low, high);
#else
        lines[v] = _mm512_loadu_si512(above);
#endif
    }
}

/* Adds to the sums of HELD rows and one tile what DOWN steps give. */
INLINE void pass(const int *items, const char *from, long row_bytes, int fetch, long ahead,
                 __m512 *totals) {
    __m512 sums[SUMS];
    EACH(at, SUMS) sums[at] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int at = 0; at < DOWN; at++) {
        __m512i lines[VECTORS];
        weave(from + at * (row_bytes << HALF), row_bytes, fetch, ahead, lines);
        EACH(r, HELD) EACH(v, VECTORS)
            sums[r * VECTORS + v] = step(sums[r * VECTORS + v], lines[v], items[at * ROWS + r]);
    }
    EACH(at, SUMS) totals[at] = _mm512_add_ps(totals[at], sums[at]);
}

static void add_up(const Linear *job, const char *weights, long width, __m512 *totals) {
    long row_bytes = job->columns * ELEMENT, down = DOWN * (row_bytes << HALF);
    long soon = AHEAD * WIDTH * ELEMENT, next = down - width * ELEMENT + soon;
    for (long at = 0; at < width / LANES * ROWS; at++) totals[at] = _mm512_setzero_ps();
    for (long begin = 0; begin < job->steps; begin += DOWN, weights += down)
        for (long column = 0; column < width; column += WIDTH)
            for (int row = 0; row < ROWS; row += HELD)
                pass(job->items + begin * ROWS + row, weights + column * ELEMENT, row_bytes, !row,
                     column + AHEAD * WIDTH < width ? soon : next,
                     totals + (column / WIDTH * ROWS + row) * VECTORS);
}

/* Stores a row of a tile. */
INLINE void put_row(char *to, const __m512 *values) {
#if HALF
    const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    EACH(v, VECTORS / 2) {
        __m512i two = (__m512i)_mm512_cvtne2ps_pbh(values[2 * v + 1], values[2 * v]);
        _mm512_storeu_si512(to + v * LINE, _mm512_permutexvar_epi64(order, two));
    }
#else
    EACH(v, VECTORS) put(to + v * LINE, values[v]);
#endif
}

INLINE void share(const Linear *job, long part, __m512 *sums, __m512 *others, int gated) {
    long width = job->columns < COLUMNS ? job->columns : COLUMNS, first = part * width;
    add_up(job, job->first + first * ELEMENT, width, sums);
    if (gated) add_up(job, job->second + first * ELEMENT, width, others);
    for (long column = 0; column < width; column += WIDTH)
        for (int row = 0; row < ROWS; row++, sums += VECTORS, others += VECTORS) {
            __m512 values[VECTORS];
            EACH(v, VECTORS)
                values[v] = gated ? _mm512_mul_ps(silu(sums[v]), others[v])
                                  : _mm512_mul_ps(sums[v], _mm512_set1_ps(job->scales[row]));
            put_row(job->y + (row * job->columns + first + column) * ELEMENT, values);
        }
}

static void normed(void *job, long part, int thread) {
    share(job, part, rooms[thread][0], rooms[thread][1], 0);
}

static void gated(void *job, long part, int thread) {
    share(job, part, rooms[thread][0], rooms[thread][1], 1);
}

static long shares(long columns) { return columns < COLUMNS ? 1 : columns / COLUMNS; }

/* The depth has to be whole DOWNs of steps, the columns whole tiles, and whole shares if more. */
void rms_norm(long depth, long columns, const void *x, const void *w, void *y) {
    run(normed, (Linear){depth >> HALF, columns, x, w, 0, y, 0, 0, {0}}, shares(columns));
}

void gated_mlp(long depth, long columns, const void *x, const void *gate, const void *up, void *y) {
    run(gated, (Linear){depth >> HALF, columns, x, gate, up, y, 0, 0, {0}}, shares(columns));
}
