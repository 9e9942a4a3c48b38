/* The threads wait for a job by looking for some microseconds, then asleep. A thread that is late
 * finds nothing left, and nobody waits for it. */
#include "pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>

enum { LOOKS = 10000 };

static struct {
    /* The number of the job above, how many of its parts nobody has taken below. */
    _Alignas(64) atomic_ulong ticket;
    _Alignas(64) atomic_long done;
    _Alignas(64) _Atomic(Work) work;
    _Atomic(void *) job;
    atomic_long parts;
    atomic_int sleepers, waiting;
    pthread_mutex_t mutex;
    pthread_cond_t called, ended;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER,
          .called = PTHREAD_COND_INITIALIZER,
          .ended = PTHREAD_COND_INITIALIZER};

static unsigned left(unsigned long ticket) { return (unsigned)ticket; }

static void tell(pthread_cond_t *whom) {
    pthread_mutex_lock(&pool.mutex);
    pthread_cond_broadcast(whom);
    pthread_mutex_unlock(&pool.mutex);
}

/* Takes parts while there are any. What is read of a job is only used if it is still the same. */
static void take(int thread) {
    unsigned long ticket = atomic_load(&pool.ticket);
    while (left(ticket)) {
        Work work = atomic_load(&pool.work);
        void *job = atomic_load(&pool.job);
        long parts = atomic_load(&pool.parts);
        if (!atomic_compare_exchange_weak(&pool.ticket, &ticket, ticket - 1)) continue;
        work(job, parts - left(ticket), thread);
        if (atomic_fetch_add(&pool.done, 1) + 1 == parts && atomic_load(&pool.waiting))
            tell(&pool.ended);
        ticket = atomic_load(&pool.ticket);
    }
}

static void await_job(void) {
    for (int look = 0; look < LOOKS; look++) {
        if (left(atomic_load(&pool.ticket))) return;
        _mm_pause();
    }
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    while (!left(atomic_load(&pool.ticket))) pthread_cond_wait(&pool.called, &pool.mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
}

static void await_end(long parts) {
    for (int look = 0; look < LOOKS; look++) {
        if (atomic_load(&pool.done) == parts) return;
        _mm_pause();
    }
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&pool.waiting, 1);
    while (atomic_load(&pool.done) != parts) pthread_cond_wait(&pool.ended, &pool.mutex);
    atomic_store(&pool.waiting, 0);
    pthread_mutex_unlock(&pool.mutex);
}

static void *live(void *number) {
    for (;;) {
        await_job();
        take((int)(long)number);
    }
    return 0;
}

static void begin(void) {
    pthread_t thread;
    for (long number = 1; number < THREADS; number++)
        if (!pthread_create(&thread, 0, live, (void *)number)) pthread_detach(thread);
}

void pool_run(Work work, void *job, long parts) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (parts == 1) {
        work(job, 0, 0); /* to wait for another thread would only take longer */
        return;
    }
    pthread_once(&once, begin);
    atomic_store(&pool.work, work);
    atomic_store(&pool.job, job);
    atomic_store(&pool.parts, parts);
    atomic_store(&pool.done, 0);
    unsigned long number = atomic_load(&pool.ticket) >> 32;
    atomic_store(&pool.ticket, (number + 1) << 32 | (unsigned long)parts);
    if (atomic_load(&pool.sleepers)) tell(&pool.called);
    take(0);
    await_end(parts);
}
