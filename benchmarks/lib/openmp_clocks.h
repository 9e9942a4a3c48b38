// The clocks that Rodinia's programs stop around what is measured, put before their text: name,
// wall time and CPU time of all threads, in seconds, as lines of the file $AIO_CLOCKS.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double aio_begun[16][2];
static int aio_depth = 0;

static inline double aio_now(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}
static inline void aio_start(void) {
  aio_begun[aio_depth][0] = aio_now(CLOCK_MONOTONIC);
  aio_begun[aio_depth++][1] = aio_now(CLOCK_PROCESS_CPUTIME_ID);
}
static inline void aio_stop(const char *name) {
  const double cpu = aio_now(CLOCK_PROCESS_CPUTIME_ID) - aio_begun[--aio_depth][1];
  const double wall = aio_now(CLOCK_MONOTONIC) - aio_begun[aio_depth][0];
  FILE *file = fopen(getenv("AIO_CLOCKS"), "a");
  if (!aio_depth) fprintf(file, "%s,%.9f,%.9f\n", name, wall, cpu);
  fclose(file);
}
#define MY_START_CLOCK(app, region) aio_start()
#define MY_STOP_CLOCK(app, region) aio_stop(#app " " #region)
