; A team: the threads that run the phases of one call. They come once and stay until the last phase, as
; waking a thread takes longer than many a phase.
;
; Problem: XLA may begin a task late, or after the call has returned, and a call that waited for it
; could deadlock: calls that fill XLA's thread pool would each wait for a task that no thread is left to
; run. So nobody waits for a task that has not begun; the thread that leads runs all blocks alone if
; nobody comes, and a late task finds nothing to do. A team is freed by the last who holds it.
;
; Example with 2 workers and phases of 64 and 1 blocks: word 0 is (phase 0, block 0). Each worker
; claims (64 - next) / 8 blocks by compare-and-swap, at least one, runs them, and adds up how many it has
; run. When no block is left, each adds its number to word 2; whoever reaches 64 resets that word,
; runs the single block of phase 1 itself, and sets word 0 to (phase 2, block 0), which ends the call.
;
; Invariants: a block is run by exactly one worker; phase n + 1 begins after all blocks of phase n are
; done, and what they wrote is visible (release of word 0 after acquire-release additions to word 2).
; What one thread writes while others look at it is on cache lines of its own.
;   0 the phase, above the number of its next block (low 40 bits)
;   2 blocks of the phase that are done   3 holders   4 tasks begun
;   6 workers   7 buffers   8 scratch memory   9 the function that a joining thread runs
;   11 mutex   12 condition
%Team = type { i64, [56 x i8], i64, i32, i32, [48 x i8], i64, ptr, ptr, ptr, [32 x i8], [64 x i8], [64 x i8] }

; A slot: where a thread of XLA that was in a team waits, for about as long as waking it takes, so that
; the next call, of whatever kernel, finds it awake. All kernels of a process share the slots. A slot is
; free (0), has a thread waiting (1), or holds the team that was offered to it. A waiting thread leaves
; by exchanging the slot for 0, and joins a team that it finds there: an offer is never lost.
%Slot = type { i64, [56 x i8] }

@aiosearch.slots = external global [{slots} x %Slot]

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_mutex_destroy(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_destroy(ptr)
declare i32 @clock_gettime(i32, ptr)
declare void @{pause}({kind})

; Returns a team whose only holder is the caller, before the first phase; null without memory.
define internal ptr @gather(i64 %workers, ptr %buffers, ptr %scratch) {
entry:
  %end = getelementptr %Team, ptr null, i64 1
  %bytes = ptrtoint ptr %end to i64
  %team = call ptr @allocate(i64 %bytes)
  %lacking = icmp eq ptr %team, null
  br i1 %lacking, label %failed, label %fill
fill:
  %first = call i64 @busy(i64 0)
  %word = shl i64 %first, 40
  store i64 %word, ptr %team
  %done = getelementptr %Team, ptr %team, i64 0, i32 2
  store i64 0, ptr %done
  %holders = getelementptr %Team, ptr %team, i64 0, i32 3
  store i32 1, ptr %holders
  %begun = getelementptr %Team, ptr %team, i64 0, i32 4
  store i32 1, ptr %begun
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 6
  store i64 %workers, ptr %workers.at
  %buffers.at = getelementptr %Team, ptr %team, i64 0, i32 7
  store ptr %buffers, ptr %buffers.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 8
  store ptr %scratch, ptr %scratch.at
  %joined.at = getelementptr %Team, ptr %team, i64 0, i32 9
  store ptr @join, ptr %joined.at
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 11
  %condition = getelementptr %Team, ptr %team, i64 0, i32 12
  %0 = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %1 = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret ptr %team
failed:
  ret ptr null
}

; Offers the team to waiting threads, asks XLA for as many tasks as are missing, works, and returns when
; all phases are done.
define internal void @lead(ptr %api, ptr %context, ptr %team) {
entry:
  %request = alloca %Schedule
  store %Schedule { i64 40, ptr null, ptr null, ptr @task, ptr null }, ptr %request
  %context.at = getelementptr %Schedule, ptr %request, i64 0, i32 2
  store ptr %context, ptr %context.at
  %data.at = getelementptr %Schedule, ptr %request, i64 0, i32 4
  store ptr %team, ptr %data.at
  %function.at = getelementptr %Api, ptr %api, i64 0, i32 4, i64 11
  %function = load ptr, ptr %function.at
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 6
  %workers = load i64, ptr %workers.at
  %holders = getelementptr %Team, ptr %team, i64 0, i32 3
  %wanted = sub i64 %workers, 1
  %offered = call i64 @offer_to_waiting(ptr %team, i64 %wanted)
  %first = add i64 %offered, 1
  br label %next
next:
  %i = phi i64 [ %first, %entry ], [ %i.next, %one ]
  %more = icmp ult i64 %i, %workers
  br i1 %more, label %one, label %work
one:
  %i.next = add i64 %i, 1
  ; Counted before the task exists: it may run and release the team before the call of XLA returns.
  ; No order is needed, as the caller itself holds the team.
  %0 = atomicrmw add ptr %holders, i32 1 monotonic
  %error = call ptr %function(ptr %request)
  %begun = icmp eq ptr %error, null
  br i1 %begun, label %next, label %refused
refused:
  call void @forget(ptr %api, ptr %error)
  call void @release(ptr %team)
  br label %work
work:
  call void @work(ptr %team, i64 0)
  call void @release(ptr %team)
  ret void
}

; Offers the team to waiting threads, %wanted at most; returns to how many.
define internal i64 @offer_to_waiting(ptr %team, i64 %wanted) {
entry:
  %holders = getelementptr %Team, ptr %team, i64 0, i32 3
  %word = ptrtoint ptr %team to i64
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %step ]
  %found = phi i64 [ 0, %entry ], [ %found.next, %step ]
  %slots = icmp ult i64 %i, {slots}
  %lacks = icmp ult i64 %found, %wanted
  %more = and i1 %slots, %lacks
  br i1 %more, label %one, label %over
one:
  %i.next = add i64 %i, 1
  %slot = getelementptr %Slot, ptr @aiosearch.slots, i64 %i
  %state = load atomic i64, ptr %slot monotonic, align 8
  %waits = icmp eq i64 %state, 1
  br i1 %waits, label %offer, label %step
offer:
  %0 = atomicrmw add ptr %holders, i32 1 monotonic
  ; Release: the thread that takes the offer sees the team's fields. It fails if the thread has stopped
  ; waiting since the load above.
  %exchange = cmpxchg ptr %slot, i64 1, i64 %word release monotonic
  %taken = extractvalue { i64, i1 } %exchange, 1
  br i1 %taken, label %count, label %missed
missed:
  ; The caller still holds the team, so this is never the last release.
  %1 = atomicrmw sub ptr %holders, i32 1 monotonic
  br label %step
count:
  br label %step
step:
  %one.more = phi i64 [ 0, %one ], [ 0, %missed ], [ 1, %count ]
  %found.next = add i64 %found, %one.more
  br label %next
over:
  ret i64 %found
}

; The task of an XLA thread: joins the team that it was scheduled for, then waits in a slot for another.
define internal void @task(ptr %team) {
entry:
  call void @join(ptr %team)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %step ], [ 0, %another ]
  %more = icmp ult i64 %i, {slots}
  br i1 %more, label %one, label %over
one:
  %i.next = add i64 %i, 1
  %slot = getelementptr %Slot, ptr @aiosearch.slots, i64 %i
  %state = load atomic i64, ptr %slot monotonic, align 8
  %free = icmp eq i64 %state, 0
  br i1 %free, label %try, label %step
step:
  br label %next
try:
  ; Claims the slot. Nothing is published by it, so no order is needed.
  %exchange = cmpxchg ptr %slot, i64 0, i64 1 monotonic monotonic
  %ours = extractvalue { i64, i1 } %exchange, 1
  br i1 %ours, label %sit, label %step
sit:
  %begin = call i64 @now()
  br label %look
look:
  %state.now = load atomic i64, ptr %slot monotonic, align 8
  %still = icmp eq i64 %state.now, 1
  br i1 %still, label %again, label %given
again:
  %patient = call i1 @pause(i64 %begin)
  br i1 %patient, label %look, label %given
given:
  ; One exchange both leaves and looks for an offer: between a look and a store an offer could be lost,
  ; with its holder never released. Acquire pairs with the release of the offer.
  %last = atomicrmw xchg ptr %slot, i64 0 acquire
  %nothing = icmp eq i64 %last, 1
  br i1 %nothing, label %over, label %another
another:
  %other = inttoptr i64 %last to ptr
  %joined.at = getelementptr %Team, ptr %other, i64 0, i32 9
  %joined = load ptr, ptr %joined.at
  call void %joined(ptr %other)
  br label %next
over:
  ret void
}

; Works in a team until no block is left to claim, and releases it.
define internal void @join(ptr %team) {
  %begun = getelementptr %Team, ptr %team, i64 0, i32 4
  %number = atomicrmw add ptr %begun, i32 1 monotonic
  %thread = zext i32 %number to i64
  call void @work(ptr %team, i64 %thread)
  call void @release(ptr %team)
  ret void
}

; Claims blocks as long as there are any, fewer at a time towards the end of a phase, so that a slow
; thread has little left when the others are done. Thread 0, which leads, returns when all blocks are
; done; the others may return when all are claimed.
define internal void @work(ptr %team, i64 %thread) {
entry:
  %count = load i64, ptr @aiosearch.phase_count
  %follows = icmp ne i64 %thread, 0
  %done = getelementptr %Team, ptr %team, i64 0, i32 2
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 6
  %workers = load i64, ptr %workers.at
  %buffers.at = getelementptr %Team, ptr %team, i64 0, i32 7
  %buffers = load ptr, ptr %buffers.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 8
  %scratches = load ptr, ptr %scratch.at
  %each = load i64, ptr @aiosearch.scratch
  %offset = mul i64 %each, %thread
  %scratch = getelementptr i8, ptr %scratches, i64 %offset
  %parts = mul i64 %workers, 4
  br label %look
look:
  %mine = phi i64 [ 0, %entry ], [ %mine.next, %run ], [ 0, %advance ], [ 0, %stay ]
  %now = load atomic i64, ptr %team acquire, align 8
  br label %claim
claim:
  %next = phi i64 [ %now, %look ], [ %seen, %try ]
  %number = lshr i64 %next, 40
  %begin = and i64 %next, 1099511627775
  %some = icmp ult i64 %number, %count
  br i1 %some, label %within, label %over
within:
  %phase = getelementptr %Phase, ptr @aiosearch.phases, i64 %number
  %blocks.at = getelementptr %Phase, ptr %phase, i64 0, i32 1
  %blocks = load i64, ptr %blocks.at
  %more = icmp ult i64 %begin, %blocks
  br i1 %more, label %try, label %begun
try:
  %left = sub i64 %blocks, %begin
  %share = udiv i64 %left, %parts
  %several = icmp ugt i64 %share, 1
  %chunk = select i1 %several, i64 %share, i64 1
  %after = add i64 %next, %chunk
  ; The word holds phase and block together, so a claim fails if the phase has ended meanwhile. Acquire:
  ; blocks of this phase read what those of earlier phases have written.
  %exchange = cmpxchg ptr %team, i64 %next, i64 %after acquire acquire
  %seen = extractvalue { i64, i1 } %exchange, 0
  %ours = extractvalue { i64, i1 } %exchange, 1
  br i1 %ours, label %run, label %claim
run:
  %function = load ptr, ptr %phase
  %end = add i64 %begin, %chunk
  call void %function(ptr %buffers, ptr %scratch, i64 %begin, i64 %end)
  %mine.next = add i64 %mine, %chunk
  br label %look
begun:
  %worked = icmp ne i64 %mine, 0
  br i1 %worked, label %report, label %idle
report:
  ; One addition per thread and phase, not per block. Release publishes this thread's blocks; acquire
  ; makes the blocks of all others visible to the thread that completes the count.
  %before = atomicrmw add ptr %done, i64 %mine acq_rel
  %sum = add i64 %before, %mine
  %all = icmp eq i64 %sum, %blocks
  br i1 %all, label %advance, label %idle
advance:
  ; Nobody adds to the count before the next phase is published by the release in @proceed.
  store atomic i64 0, ptr %done monotonic, align 8
  %following = add i64 %number, 1
  call void @proceed(ptr %team, i64 %following, ptr %scratch)
  br label %look
idle:
  %behind = add i64 %number, 1
  %busy = call i64 @busy(i64 %behind)
  %final = icmp eq i64 %busy, %count
  %free = and i1 %final, %follows
  br i1 %free, label %over, label %stay
stay:
  call void @await(ptr %team, i64 %number)
  br label %look
over:
  ret void
}

; Begins the next phase that has several blocks, and wakes who waits for it. A phase of one block is run
; at once, as nobody could help.
define internal void @proceed(ptr %team, i64 %first, ptr %scratch) {
entry:
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 11
  %condition = getelementptr %Team, ptr %team, i64 0, i32 12
  %buffers.at = getelementptr %Team, ptr %team, i64 0, i32 7
  %buffers = load ptr, ptr %buffers.at
  %count = load i64, ptr @aiosearch.phase_count
  br label %next
next:
  %i = phi i64 [ %first, %entry ], [ %i.next, %run ]
  %number = call i64 @busy(i64 %i)
  %more = icmp ult i64 %number, %count
  br i1 %more, label %one, label %tell
one:
  %i.next = add i64 %number, 1
  %phase = getelementptr %Phase, ptr @aiosearch.phases, i64 %number
  %blocks.at = getelementptr %Phase, ptr %phase, i64 0, i32 1
  %blocks = load i64, ptr %blocks.at
  %several = icmp ugt i64 %blocks, 1
  br i1 %several, label %tell, label %run
run:
  %function = load ptr, ptr %phase
  call void %function(ptr %buffers, ptr %scratch, i64 0, i64 1)
  br label %next
tell:
  %word = shl i64 %number, 40
  ; Under the mutex, so that a thread between its last look and its wait cannot miss the broadcast.
  %0 = call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 %word, ptr %team release, align 8
  %1 = call i32 @pthread_mutex_unlock(ptr %mutex)
  %2 = call i32 @pthread_cond_broadcast(ptr %condition)
  ret void
}

; The first phase from here on that has blocks, or the number of phases.
define internal i64 @busy(i64 %phase) {
entry:
  %count = load i64, ptr @aiosearch.phase_count
  br label %next
next:
  %i = phi i64 [ %phase, %entry ], [ %i.next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %found
one:
  %i.next = add i64 %i, 1
  %blocks.at = getelementptr %Phase, ptr @aiosearch.phases, i64 %i, i32 1
  %blocks = load i64, ptr %blocks.at
  %empty = icmp eq i64 %blocks, 0
  br i1 %empty, label %next, label %found
found:
  ret i64 %i
}

; Whether less than {patience} ns have passed since then, about what waking a thread takes. Takes some
; tens of ns itself, which keeps the line of memory that is looked at quiet.
define internal i1 @pause(i64 %begin) {
  call void @{pause}({kind} {way})
  call void @{pause}({kind} {way})
  call void @{pause}({kind} {way})
  call void @{pause}({kind} {way})
  %now = call i64 @now()
  %since = sub i64 %now, %begin
  %patient = icmp ult i64 %since, {patience}
  ret i1 %patient
}

; Nanoseconds of the monotonic clock.
define internal i64 @now() {
entry:
  %time = alloca [2 x i64]
  store [2 x i64] zeroinitializer, ptr %time
  %0 = call i32 @clock_gettime(i32 {monotonic}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %most = mul i64 %seconds, 1000000000
  %all = add i64 %most, %rest
  ret i64 %all
}

; Waits for the end of a phase: spins for about as long as waking takes, then sleeps.
define internal void @await(ptr %team, i64 %phase) {
entry:
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 11
  %condition = getelementptr %Team, ptr %team, i64 0, i32 12
  %begin = call i64 @now()
  br label %look
look:
  %now = load atomic i64, ptr %team acquire, align 8
  %number = lshr i64 %now, 40
  %ended = icmp ne i64 %number, %phase
  br i1 %ended, label %over, label %again
again:
  %patient = call i1 @pause(i64 %begin)
  br i1 %patient, label %look, label %sleep
sleep:
  %0 = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check
check:
  %then = load atomic i64, ptr %team acquire, align 8
  %reached = lshr i64 %then, 40
  %awake = icmp ne i64 %reached, %phase
  br i1 %awake, label %rise, label %wait
wait:
  %1 = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
rise:
  %2 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %over
over:
  ret void
}

; Releases a team; the last holder frees it.
define internal void @release(ptr %team) {
entry:
  %holders = getelementptr %Team, ptr %team, i64 0, i32 3
  ; Release: this thread is done with the team. Acquire: the last one frees it after all others are.
  %before = atomicrmw sub ptr %holders, i32 1 acq_rel
  %last = icmp eq i32 %before, 1
  br i1 %last, label %end, label %over
end:
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 11
  %condition = getelementptr %Team, ptr %team, i64 0, i32 12
  %0 = call i32 @pthread_mutex_destroy(ptr %mutex)
  %1 = call i32 @pthread_cond_destroy(ptr %condition)
  call void @free(ptr %team)
  br label %over
over:
  ret void
}
