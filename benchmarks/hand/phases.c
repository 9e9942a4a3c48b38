/* Machine code of ours, phase after phase, on threads like those of the kernels by hand. */
#include "pool.h"

typedef void (*Phase)(void **buffers, char *scratch, long begin, long end);

enum { PARTS = 16 * THREADS };

typedef struct {
    Phase phase;
    long blocks, parts;
    void **buffers;
    char *scratch;
    long each; /* bytes of scratch memory for a thread */
} Job;

static void some(void *given, long part, int thread) {
    Job *job = given;
    long begin = part * job->blocks / job->parts, end = (part + 1) * job->blocks / job->parts;
    job->phase(job->buffers, job->scratch + thread * job->each, begin, end);
}

void phases(long count, Phase *all, const long *blocks, void **buffers, char *scratch, long each) {
    for (long at = 0; at < count; at++) {
        long parts = blocks[at] < PARTS ? blocks[at] : PARTS;
        Job job = {all[at], blocks[at], parts, buffers, scratch, each};
        if (parts) pool_run(some, &job, parts);
    }
}
