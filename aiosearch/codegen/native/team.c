/* The thread team of one kernel call: the threads that run its phases together.

   team.ll is this file compiled once by clang 19, so that no compiler is needed where kernels are
   called: `python tests/support/testkit/kernels/team_source.py` does it, and tests hold both together.

   Problem. A call runs phases one after the other; the blocks of a phase are independent. Threads
   come from XLA's pool, which may be full of other calls, so nobody may ever wait for a task that
   XLA has not begun. To be woken takes longer (tens of microseconds) than many a phase, so threads
   come once and stay until the last phase.

   Example. Phases of 3, 1 and 300 blocks with 2 threads. The leader (thread 0) gathers a team, asks
   XLA for one task and works. Both claim blocks 0..2 of phase 0 from `position`. Whoever finishes the
   last block begins phase 2 and runs phase 1, of one block, on the way there. Blocks of phase 2 are
   claimed in chunks of a share of what is left, 300/8, 263/8, ..., so that all end together. A task
   that XLA begins after all is done finds no block and lets go of the team.

   Invariants. `position` only grows. A block is run by who moved `position` past it, exactly once.
   A phase begins after `finished` of the one before reached its number of blocks (acq_rel there,
   release on `position`, acquire by who claims), so what a phase wrote is seen by the next. The team
   is freed by the last of its `holders`; a task that has not begun yet is one of them.

   Cores. XLA's other work leaves its threads where it likes, and Linux wakes a thread where it ran
   before: at times that is the leader's core, while another has nothing to do. The two of them then
   take turns for milliseconds, and the call takes as long as on one thread. So who comes to a team
   looks where it is, and leaves the leader's core.

   What one thread writes and others look at meanwhile is on cache lines of its own. */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
  SEATS = 64,        /* waiting places of a process; handler.py has the same number */
  BLOCK_BITS = 40,   /* `position` is the phase above the number of its next block */
  CHUNKS = 4,        /* claims of one thread in a phase, about: fewer blocks at a time near its end */
  MISSES = 4,        /* waits in a seat in vain, after which most are brief */
  RETRY = 16,        /* of the waits after that, one in so many is a long one */
  BRIEF = 2000,      /* nanoseconds of a brief wait */
  SCHEDULE = 11      /* XLA_FFI_ThreadPool_Schedule among the functions of `xla_api` */
};

typedef void block_function(void **buffers, char *scratch, int64_t begin, int64_t end);

struct phase {
  block_function *run;
  int64_t blocks;
};

/* What a program says of itself: handler.py writes these as constants. */
extern const struct phase phases[] __asm__("aiosearch.phases");
extern const int64_t phase_count __asm__("aiosearch.phase_count");
extern const int64_t scratch_bytes __asm__("aiosearch.scratch"); /* of each thread */

/* handler.ll, workspace.ll, spin.ll, cores.ll */
extern void *allocate(int64_t bytes);
extern void forget(void *api, void *error); /* destroys an error of XLA's */
extern int64_t now(void); /* nanoseconds of a clock that is never set */
extern _Bool pause_since(int64_t begin); /* spins for some tens of ns; false when it has been long */
extern int64_t core(void);               /* that this thread runs on */
extern void leave(int64_t core);         /* moves this thread to another core, if it has any */

/* libc; the sizes are those of the largest platform, as team.c is compiled for none */
extern void free(void *);
typedef struct { char bytes[64]; } mutex_storage;
typedef struct { char bytes[64]; } condition_storage;
extern int pthread_mutex_init(mutex_storage *, const void *);
extern int pthread_mutex_lock(mutex_storage *);
extern int pthread_mutex_unlock(mutex_storage *);
extern int pthread_mutex_destroy(mutex_storage *);
extern int pthread_cond_init(condition_storage *, const void *);
extern int pthread_cond_wait(condition_storage *, mutex_storage *);
extern int pthread_cond_broadcast(condition_storage *);
extern int pthread_cond_destroy(condition_storage *);

struct team {
  _Alignas(64) _Atomic uint64_t position; /* phase << BLOCK_BITS | next block */
  _Alignas(64) _Atomic int64_t finished;  /* blocks of the phase that are done */
  _Atomic int32_t holders;                /* who still points here; the last one frees it */
  _Atomic int32_t begun;                  /* tasks that have begun: the next thread's number */
  _Alignas(64) int64_t workers;           /* threads at most, the leader among them */
  void **buffers;
  char *scratch; /* scratch_bytes for each thread */
  void (*join)(struct team *);            /* of this kernel: a waiting thread may be another kernel's */
  _Atomic int64_t core;                   /* that the leader ran on when it began, or woke last */
  _Alignas(64) mutex_storage mutex;
  _Alignas(64) condition_storage begins; /* signalled when a phase begins */
};

/* Where XLA's threads wait that were in a team, for about as long as it takes to be woken: the next
   call, of whatever kernel, finds them awake. All kernels of a process share these seats. A thread
   that waits takes what it was given, or leaves EMPTY behind by an exchange, so that no team is ever
   left in a seat.

   Waiting pays where calls follow each other closely. Where they do not (between two of them XLA has
   other work, or the program has), a thread that spins only keeps XLA's other tasks, or another
   process, from its core. So a seat counts the waits in vain since the last one that was not: after
   MISSES of them a thread waits for BRIEF, and for long again once in RETRY times, by which it learns
   that calls follow closely again. */
enum { EMPTY = 0, WAITING = 1 /* anything else is a team for who waits */ };
struct seat {
  _Alignas(64) _Atomic uint64_t state;
  _Atomic uint64_t missed; /* waits in vain since a team came; only who waits writes it */
};
extern struct seat seats[SEATS] __asm__("aiosearch.seats");

/* The request of XLA_FFI_ThreadPool_Schedule. */
struct schedule {
  size_t size;
  void *extension, *context;
  void (*task)(void *);
  void *data;
};
struct xla_api {
  size_t size;
  void *extension;
  struct { size_t size; void *extension; int32_t major, minor; } version;
  void *internal;
  void *(*functions[13])(struct schedule *);
};

static uint64_t position_at(int64_t phase) { return (uint64_t)phase << BLOCK_BITS; }

/* The first phase from here on that has blocks, or the number of phases. */
int64_t nonempty_phase(int64_t phase) {
  while (phase < phase_count && phases[phase].blocks == 0) phase++;
  return phase;
}

/* Lets go of a team; the last one frees it. */
static void release_team(struct team *team) {
  if (atomic_fetch_sub_explicit(&team->holders, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_destroy(&team->mutex);
  pthread_cond_destroy(&team->begins);
  free(team);
}

/* Begins the first phase from here on that has several blocks, and wakes who waits for it: a single
   block is run at once, as nobody else could help. */
static void begin_phase(struct team *team, int64_t phase, char *scratch) {
  for (phase = nonempty_phase(phase); phase < phase_count && phases[phase].blocks == 1;
       phase = nonempty_phase(phase + 1))
    phases[phase].run(team->buffers, scratch, 0, 1);
  /* The lock is for those who are about to sleep: they look at `position` under it. */
  pthread_mutex_lock(&team->mutex);
  atomic_store_explicit(&team->position, position_at(phase), memory_order_release);
  pthread_mutex_unlock(&team->mutex);
  pthread_cond_broadcast(&team->begins);
}

/* Keeps two threads of a team from one core. */
static void keep_apart(struct team *team, int64_t thread) {
  int64_t here = core();
  if (thread == 0)
    atomic_store_explicit(&team->core, here, memory_order_relaxed);
  else if (here == atomic_load_explicit(&team->core, memory_order_relaxed))
    leave(here);
}

/* Waits for the end of a phase: looks for about as long as it takes to be woken, then sleeps. */
static void await_next_phase(struct team *team, int64_t phase, int64_t thread) {
  int64_t begin = now();
  do {
    if ((int64_t)(atomic_load_explicit(&team->position, memory_order_acquire) >> BLOCK_BITS) != phase)
      return;
  } while (pause_since(begin));
  pthread_mutex_lock(&team->mutex);
  while ((int64_t)(atomic_load_explicit(&team->position, memory_order_acquire) >> BLOCK_BITS) == phase)
    pthread_cond_wait(&team->begins, &team->mutex);
  pthread_mutex_unlock(&team->mutex);
  keep_apart(team, thread); /* who slept may wake on any core */
}

/* Runs blocks as long as there are any. The leader, thread 0, is back when all is done; others may
   be back when all is begun. */
static void work(struct team *team, int64_t thread) {
  char *scratch = team->scratch + scratch_bytes * thread;
  int64_t mine = 0; /* blocks of this phase that this thread ran and has not reported */
  for (;;) {
    uint64_t position = atomic_load_explicit(&team->position, memory_order_acquire);
    int64_t phase, block, chunk, left;
    do {
      phase = (int64_t)(position >> BLOCK_BITS);
      block = (int64_t)(position & (((uint64_t)1 << BLOCK_BITS) - 1));
      if (phase >= phase_count) return;
      left = phases[phase].blocks - block;
      if (left <= 0) break;
      chunk = (int64_t)((uint64_t)left / (uint64_t)(team->workers * CHUNKS));
      if (chunk < 1) chunk = 1;
    } while (!atomic_compare_exchange_strong_explicit(&team->position, &position,
                                                      position + (uint64_t)chunk,
                                                      memory_order_acquire, memory_order_acquire));
    if (left > 0) {
      phases[phase].run(team->buffers, scratch, block, block + chunk);
      mine += chunk;
      continue;
    }
    /* Every block of the phase is begun. Who reports the last ones begins the next phase. */
    if (mine != 0) {
      int64_t reported = atomic_fetch_add_explicit(&team->finished, mine, memory_order_acq_rel);
      mine += reported;
      _Bool last = mine == phases[phase].blocks;
      mine = 0;
      if (last) {
        atomic_store_explicit(&team->finished, 0, memory_order_relaxed);
        begin_phase(team, phase + 1, scratch);
        continue;
      }
    }
    if (thread != 0 && nonempty_phase(phase + 1) == phase_count) return;
    await_next_phase(team, phase, thread);
  }
}

/* Works in a team until nothing is left to begin, and lets go of it. */
static void join_team(struct team *team) {
  int64_t thread = atomic_fetch_add_explicit(&team->begun, 1, memory_order_relaxed);
  keep_apart(team, thread);
  work(team, thread);
  release_team(team);
}

/* Gives the team to threads that wait in seats, so many at most; says to how many. */
static int64_t seat_team(struct team *team, int64_t wanted) {
  int64_t given = 0;
  for (int64_t i = 0; i < SEATS && given < wanted; i++) {
    uint64_t waiting = WAITING;
    if (atomic_load_explicit(&seats[i].state, memory_order_relaxed) != WAITING) continue;
    /* Held before it is offered, as who waits may be done with it at once. */
    atomic_fetch_add_explicit(&team->holders, 1, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(&seats[i].state, &waiting, (uint64_t)team,
                                                memory_order_release, memory_order_relaxed))
      given++;
    else
      atomic_fetch_sub_explicit(&team->holders, 1, memory_order_relaxed);
  }
  return given;
}

/* Nanoseconds to wait in a seat, after so many waits in vain; `pause_since` ends a wait earlier. */
static int64_t patience(uint64_t missed) {
  return missed < MISSES || missed % RETRY == 0 ? INT64_MAX : BRIEF;
}

/* What XLA runs on one of its threads: first what it was asked for, then, from a seat, what other
   calls give it. */
static void task(void *data) {
  join_team(data);
  for (int64_t i = 0; i < SEATS; i++) {
    uint64_t empty = EMPTY;
    if (atomic_load_explicit(&seats[i].state, memory_order_relaxed) != EMPTY) continue;
    if (!atomic_compare_exchange_strong_explicit(&seats[i].state, &empty, WAITING,
                                                 memory_order_relaxed, memory_order_relaxed))
      continue;
    uint64_t missed = atomic_load_explicit(&seats[i].missed, memory_order_relaxed);
    int64_t begin = now(), most = patience(missed);
    while (atomic_load_explicit(&seats[i].state, memory_order_relaxed) == WAITING &&
           pause_since(begin) && now() - begin < most)
      ;
    /* Before the seat is free: the next one who waits in it reads what this one has learned. */
    _Bool came = atomic_load_explicit(&seats[i].state, memory_order_relaxed) != WAITING;
    atomic_store_explicit(&seats[i].missed, came ? 0 : missed + 1, memory_order_relaxed);
    uint64_t given = atomic_exchange_explicit(&seats[i].state, EMPTY, memory_order_acquire);
    if (given == WAITING) return;
    struct team *other = (struct team *)given;
    other->join(other);
    i = -1; /* from the first seat on */
  }
}

/* Gives a team of the thread that asks alone, before the first phase, or null without memory. */
struct team *gather(int64_t workers, void **buffers, char *scratch) {
  struct team *team = allocate(sizeof(struct team));
  if (team == NULL) return NULL;
  atomic_store_explicit(&team->position, position_at(nonempty_phase(0)), memory_order_relaxed);
  atomic_store_explicit(&team->finished, 0, memory_order_relaxed);
  atomic_store_explicit(&team->holders, 1, memory_order_relaxed);
  atomic_store_explicit(&team->begun, 1, memory_order_relaxed);
  team->workers = workers;
  team->buffers = buffers;
  team->scratch = scratch;
  team->join = join_team;
  keep_apart(team, 0);
  pthread_mutex_init(&team->mutex, NULL);
  pthread_cond_init(&team->begins, NULL);
  return team;
}

/* Asks threads that wait, and XLA for the others, works like one of them, and is back when all is
   done. Where XLA refuses a task, those that are there do all of it. */
void lead(struct xla_api *api, void *context, struct team *team) {
  struct schedule request = {sizeof request, NULL, context, task, team};
  for (int64_t i = seat_team(team, team->workers - 1) + 1; i < team->workers; i++) {
    atomic_fetch_add_explicit(&team->holders, 1, memory_order_relaxed);
    void *error = api->functions[SCHEDULE](&request);
    if (error != NULL) {
      forget(api, error);
      release_team(team);
      break;
    }
  }
  work(team, 0);
  release_team(team);
}
