/* A few rows that meet weights: they lie step by step, so that what meets a line is side by side,
 * and what became of their squares is known before the products begin. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "pool.h"
#include "tile.h"

enum { BLOCK = 256 }; /* steps that are laid out at once */

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

INLINE __m512 silu(__m512 x) {
    __m512 grown = power(_mm512_mul_ps(x, _mm512_set1_ps(-(float)M_LOG2E)));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1), grown));
}

/* The depth has to be whole lines of items. */
static void run(Work work, Linear job, long shares) {
    long parts = (job.steps + BLOCK - 1) / BLOCK;
    job.items = aligned_alloc(LINE, (size_t)(job.steps * ROWS) * sizeof(int));
    job.squares = malloc((size_t)parts * ROWS * sizeof(float));
    pool_run(lay_out, &job, parts);
    for (int row = 0; row < ROWS; row++) {
        float sum = 0;
        for (long part = 0; part < parts; part++) sum += job.squares[part * ROWS + row];
        job.scales[row] = sqrtf((float)(job.steps * (1 + HALF)) / sum);
    }
    pool_run(work, &job, shares);
    free(job.items);
    free(job.squares);
}
