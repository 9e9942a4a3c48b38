/* A few threads that run the parts of a job; THREADS is how many, the caller's among them. */
#pragma once

typedef void (*Work)(void *job, long part, int thread);

/* Runs every part once, on any thread, and comes back when all are done. */
void pool_run(Work work, void *job, long parts);
