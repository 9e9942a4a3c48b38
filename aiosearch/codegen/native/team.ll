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

define internal i64 @nonempty_phase(i64 %phase) {
entry:
  %0 = load i64, ptr @aiosearch.phase_count, align 8
  %cmp5 = icmp sgt i64 %0, %phase
  br i1 %cmp5, label %land.rhs, label %while.end

land.rhs:
  %phase.addr.06 = phi i64 [ %inc, %while.body ], [ %phase, %entry ]
  %blocks = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %phase.addr.06, i32 1
  %1 = load i64, ptr %blocks, align 8
  %cmp1 = icmp eq i64 %1, 0
  br i1 %cmp1, label %while.body, label %while.end

while.body:
  %inc = add i64 %phase.addr.06, 1
  %exitcond.not = icmp eq i64 %inc, %0
  br i1 %exitcond.not, label %while.end, label %land.rhs

while.end:
  %phase.addr.0.lcssa = phi i64 [ %phase, %entry ], [ %phase.addr.06, %land.rhs ], [ %0, %while.body ]
  ret i64 %phase.addr.0.lcssa
}

; Returns a team whose only holder is the caller, before the first phase; null without memory.
define internal ptr @gather(i64 %workers, ptr %buffers, ptr %scratch) {
entry:
  %call = tail call ptr @allocate(i64 320)
  %cmp = icmp eq ptr %call, null
  br i1 %cmp, label %return, label %if.end

if.end:
  %0 = load i64, ptr @aiosearch.phase_count, align 8
  %cmp5.i = icmp sgt i64 %0, 0
  br i1 %cmp5.i, label %land.rhs.i, label %nonempty_phase.exit

land.rhs.i:
  %phase.addr.06.i = phi i64 [ %inc.i, %while.body.i ], [ 0, %if.end ]
  %blocks.i = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %phase.addr.06.i, i32 1
  %1 = load i64, ptr %blocks.i, align 8
  %cmp1.i = icmp eq i64 %1, 0
  br i1 %cmp1.i, label %while.body.i, label %nonempty_phase.exit.loopexit

while.body.i:
  %inc.i = add nuw nsw i64 %phase.addr.06.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %0
  br i1 %exitcond.not.i, label %nonempty_phase.exit.loopexit, label %land.rhs.i

nonempty_phase.exit.loopexit:
  %phase.addr.0.lcssa.i.ph = phi i64 [ %phase.addr.06.i, %land.rhs.i ], [ %0, %while.body.i ]
  %2 = shl i64 %phase.addr.0.lcssa.i.ph, 40
  br label %nonempty_phase.exit

nonempty_phase.exit:
  %phase.addr.0.lcssa.i = phi i64 [ 0, %if.end ], [ %2, %nonempty_phase.exit.loopexit ]
  store atomic i64 %phase.addr.0.lcssa.i, ptr %call monotonic, align 64
  %finished = getelementptr inbounds i8, ptr %call, i64 64
  store atomic i64 0, ptr %finished monotonic, align 64
  %holders = getelementptr inbounds i8, ptr %call, i64 72
  store atomic i32 1, ptr %holders monotonic, align 8
  %begun = getelementptr inbounds i8, ptr %call, i64 76
  store atomic i32 1, ptr %begun monotonic, align 4
  %workers6 = getelementptr inbounds i8, ptr %call, i64 128
  store i64 %workers, ptr %workers6, align 64
  %buffers7 = getelementptr inbounds i8, ptr %call, i64 136
  store ptr %buffers, ptr %buffers7, align 8
  %scratch8 = getelementptr inbounds i8, ptr %call, i64 144
  store ptr %scratch, ptr %scratch8, align 16
  %join = getelementptr inbounds i8, ptr %call, i64 152
  store ptr @join_team, ptr %join, align 8
  %mutex = getelementptr inbounds i8, ptr %call, i64 192
  %call9 = tail call i32 @pthread_mutex_init(ptr nonnull %mutex, ptr null)
  %begins = getelementptr inbounds i8, ptr %call, i64 256
  %call10 = tail call i32 @pthread_cond_init(ptr nonnull %begins, ptr null)
  br label %return

return:
  %retval.0 = phi ptr [ %call, %nonempty_phase.exit ], [ null, %entry ]
  ret ptr %retval.0
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

for.inc.i:
  %given.1.i = phi i64 [ %given.022.i, %for.body.i ], [ %inc.i, %if.then7.i ], [ %given.022.i, %if.else.i ]
  %inc12.i = add nuw nsw i64 %i.021.i, 1
  %cmp.i = icmp ult i64 %i.021.i, 63
  %cmp1.i = icmp slt i64 %given.1.i, %sub
  %7 = select i1 %cmp.i, i1 %cmp1.i, i1 false
  br i1 %7, label %for.body.i, label %seat_team.exit

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
  br label %for.end

for.end:
  call fastcc void @work(ptr %team, i64 0)
  %holders.i17 = getelementptr inbounds i8, ptr %team, i64 72
  %12 = atomicrmw sub ptr %holders.i17, i32 1 acq_rel, align 8
  %cmp.not.i18 = icmp eq i32 %12, 1
  br i1 %cmp.not.i18, label %if.end.i19, label %release_team.exit24

if.end.i19:
  %mutex.i20 = getelementptr inbounds i8, ptr %team, i64 192
  %call.i21 = call i32 @pthread_mutex_destroy(ptr nonnull %mutex.i20)
  %begins.i22 = getelementptr inbounds i8, ptr %team, i64 256
  %call1.i23 = call i32 @pthread_cond_destroy(ptr nonnull %begins.i22)
  call void @free(ptr %team)
  br label %release_team.exit24

release_team.exit24:
  ret void
}

define internal void @task(ptr %data) {
entry:
  %begun.i = getelementptr inbounds i8, ptr %data, i64 76
  %0 = atomicrmw add ptr %begun.i, i32 1 monotonic, align 4
  %conv.i = sext i32 %0 to i64
  tail call fastcc void @work(ptr %data, i64 %conv.i)
  %holders.i.i = getelementptr inbounds i8, ptr %data, i64 72
  %1 = atomicrmw sub ptr %holders.i.i, i32 1 acq_rel, align 8
  %cmp.not.i.i = icmp eq i32 %1, 1
  br i1 %cmp.not.i.i, label %if.end.i.i, label %for.body.preheader

if.end.i.i:
  %mutex.i.i = getelementptr inbounds i8, ptr %data, i64 192
  %call.i.i = tail call i32 @pthread_mutex_destroy(ptr nonnull %mutex.i.i)
  %begins.i.i = getelementptr inbounds i8, ptr %data, i64 256
  %call1.i.i = tail call i32 @pthread_cond_destroy(ptr nonnull %begins.i.i)
  tail call void @free(ptr %data)
  br label %for.body.preheader

for.body.preheader:
  br label %for.body

for.body:
  %i.025 = phi i64 [ %inc, %for.inc ], [ 0, %for.body.preheader ]
  %arrayidx = getelementptr inbounds [64 x %struct.seat], ptr @aiosearch.seats, i64 0, i64 %i.025
  %2 = load atomic i64, ptr %arrayidx monotonic, align 64
  %cmp1.not = icmp eq i64 %2, 0
  br i1 %cmp1.not, label %if.end, label %for.inc

if.end:
  %3 = cmpxchg ptr %arrayidx, i64 0, i64 1 monotonic monotonic, align 64
  %4 = extractvalue { i64, i1 } %3, 1
  br i1 %4, label %if.end5, label %for.inc

if.end5:
  %call = tail call i64 @now()
  br label %while.cond

while.cond:
  %5 = load atomic i64, ptr %arrayidx monotonic, align 64
  %cmp9 = icmp eq i64 %5, 1
  br i1 %cmp9, label %land.rhs, label %while.end

land.rhs:
  %call10 = tail call zeroext i1 @pause_since(i64 %call)
  br i1 %call10, label %while.cond, label %while.end

while.end:
  %6 = atomicrmw xchg ptr %arrayidx, i64 0 acquire, align 64
  %cmp15 = icmp eq i64 %6, 1
  br i1 %cmp15, label %for.end, label %if.end17

if.end17:
  %7 = inttoptr i64 %6 to ptr
  %join = getelementptr inbounds i8, ptr %7, i64 152
  %8 = load ptr, ptr %join, align 8
  tail call void %8(ptr %7)
  br label %for.inc

for.inc:
  %i.1 = phi i64 [ %i.025, %for.body ], [ -1, %if.end17 ], [ %i.025, %if.end ]
  %inc = add nsw i64 %i.1, 1
  %cmp = icmp slt i64 %i.1, 63
  br i1 %cmp, label %for.body, label %for.end

for.end:
  ret void
}

define internal fastcc void @work(ptr %team, i64 %thread) unnamed_addr {
entry:
  %scratch1 = getelementptr inbounds i8, ptr %team, i64 144
  %0 = load ptr, ptr %scratch1, align 16
  %1 = load i64, ptr @aiosearch.scratch, align 8
  %mul = mul nsw i64 %1, %thread
  %add.ptr = getelementptr inbounds i8, ptr %0, i64 %mul
  %2 = load i64, ptr @aiosearch.phase_count, align 8
  %workers = getelementptr inbounds i8, ptr %team, i64 128
  %finished = getelementptr inbounds i8, ptr %team, i64 64
  %buffers.i = getelementptr inbounds i8, ptr %team, i64 136
  %mutex.i = getelementptr inbounds i8, ptr %team, i64 192
  %begins.i = getelementptr inbounds i8, ptr %team, i64 256
  %cmp33.not = icmp eq i64 %thread, 0
  %mutex.i72 = getelementptr inbounds i8, ptr %team, i64 192
  %begins.i73 = getelementptr inbounds i8, ptr %team, i64 256
  %buffers = getelementptr inbounds i8, ptr %team, i64 136
  br label %for.cond

for.cond:
  %chunk.0 = phi i64 [ undef, %entry ], [ %chunk.2, %for.cond.backedge ]
  %mine.0 = phi i64 [ 0, %entry ], [ %mine.0.be, %for.cond.backedge ]
  %3 = load atomic i64, ptr %team acquire, align 64
  br label %do.body

do.body:
  %chunk.1 = phi i64 [ %chunk.0, %for.cond ], [ %spec.store.select, %if.end5 ]
  %position.0 = phi i64 [ %3, %for.cond ], [ %8, %if.end5 ]
  %shr = lshr i64 %position.0, 40
  %and = and i64 %position.0, 1099511627775
  %cmp.not = icmp slt i64 %shr, %2
  br i1 %cmp.not, label %if.end, label %return

if.end:
  %arrayidx = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %shr
  %blocks = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %4 = load i64, ptr %blocks, align 8
  %sub = sub nsw i64 %4, %and
  %cmp3 = icmp slt i64 %sub, 1
  br i1 %cmp3, label %do.end, label %if.end5

if.end5:
  %5 = load i64, ptr %workers, align 64
  %mul6 = shl nsw i64 %5, 2
  %div = udiv i64 %sub, %mul6
  %spec.store.select = tail call i64 @llvm.smax.i64(i64 %div, i64 1)
  %add = add i64 %spec.store.select, %position.0
  %6 = cmpxchg ptr %team, i64 %position.0, i64 %add acquire acquire, align 64
  %7 = extractvalue { i64, i1 } %6, 1
  %8 = extractvalue { i64, i1 } %6, 0
  br i1 %7, label %do.end, label %do.body

do.end:
  %chunk.2 = phi i64 [ %chunk.1, %if.end ], [ %spec.store.select, %if.end5 ]
  %cmp11 = icmp sgt i64 %sub, 0
  br i1 %cmp11, label %if.then12, label %if.end16

if.then12:
  %9 = load ptr, ptr %arrayidx, align 8
  %10 = load ptr, ptr %buffers, align 8
  %add14 = add nsw i64 %chunk.2, %and
  tail call void %9(ptr %10, ptr %add.ptr, i64 %and, i64 %add14)
  %add15 = add nsw i64 %chunk.2, %mine.0
  br label %for.cond.backedge

if.end16:
  %cmp17.not = icmp eq i64 %mine.0, 0
  br i1 %cmp17.not, label %if.end32, label %if.then18

if.then18:
  %11 = atomicrmw add ptr %finished, i64 %mine.0 acq_rel, align 64
  %add21 = add nsw i64 %11, %mine.0
  %cmp24 = icmp eq i64 %add21, %4
  br i1 %cmp24, label %if.then27, label %if.end32

if.then27:
  store atomic i64 0, ptr %finished monotonic, align 64
  %add30 = add nuw nsw i64 %shr, 1
  %cmp5.i.i = icmp sgt i64 %2, %add30
  br i1 %cmp5.i.i, label %land.rhs.i.i, label %nonempty_phase.exit.i

land.rhs.i.i:
  %phase.addr.06.i.i = phi i64 [ %inc.i.i, %while.body.i.i ], [ %add30, %if.then27 ]
  %blocks.i.i = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %phase.addr.06.i.i, i32 1
  %12 = load i64, ptr %blocks.i.i, align 8
  %cmp1.i.i = icmp eq i64 %12, 0
  br i1 %cmp1.i.i, label %while.body.i.i, label %nonempty_phase.exit.i

while.body.i.i:
  %inc.i.i = add i64 %phase.addr.06.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i, %2
  br i1 %exitcond.not.i.i, label %nonempty_phase.exit.i, label %land.rhs.i.i

nonempty_phase.exit.i:
  %phase.addr.0.lcssa.i.i = phi i64 [ %add30, %if.then27 ], [ %phase.addr.06.i.i, %land.rhs.i.i ], [ %2, %while.body.i.i ]
  %cmp28.i = icmp slt i64 %phase.addr.0.lcssa.i.i, %2
  br i1 %cmp28.i, label %land.rhs.i, label %begin_phase.exit

land.rhs.i:
  %phase.addr.029.i = phi i64 [ %phase.addr.0.lcssa.i19.i, %nonempty_phase.exit27.i ], [ %phase.addr.0.lcssa.i.i, %nonempty_phase.exit.i ]
  %arrayidx.i = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %phase.addr.029.i
  %blocks.i = getelementptr inbounds i8, ptr %arrayidx.i, i64 8
  %13 = load i64, ptr %blocks.i, align 8
  %cmp1.i = icmp eq i64 %13, 1
  br i1 %cmp1.i, label %for.body.i, label %begin_phase.exit

for.body.i:
  %14 = load ptr, ptr %arrayidx.i, align 8
  %15 = load ptr, ptr %buffers.i, align 8
  tail call void %14(ptr %15, ptr %add.ptr, i64 0, i64 1)
  %add.i = add nsw i64 %phase.addr.029.i, 1
  %cmp5.i18.i = icmp sgt i64 %2, %add.i
  br i1 %cmp5.i18.i, label %land.rhs.i20.i, label %nonempty_phase.exit27.i

land.rhs.i20.i:
  %phase.addr.06.i21.i = phi i64 [ %inc.i25.i, %while.body.i24.i ], [ %add.i, %for.body.i ]
  %blocks.i22.i = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %phase.addr.06.i21.i, i32 1
  %16 = load i64, ptr %blocks.i22.i, align 8
  %cmp1.i23.i = icmp eq i64 %16, 0
  br i1 %cmp1.i23.i, label %while.body.i24.i, label %nonempty_phase.exit27.i

while.body.i24.i:
  %inc.i25.i = add i64 %phase.addr.06.i21.i, 1
  %exitcond.not.i26.i = icmp eq i64 %inc.i25.i, %2
  br i1 %exitcond.not.i26.i, label %nonempty_phase.exit27.i, label %land.rhs.i20.i

nonempty_phase.exit27.i:
  %phase.addr.0.lcssa.i19.i = phi i64 [ %add.i, %for.body.i ], [ %phase.addr.06.i21.i, %land.rhs.i20.i ], [ %2, %while.body.i24.i ]
  %cmp.i = icmp slt i64 %phase.addr.0.lcssa.i19.i, %2
  br i1 %cmp.i, label %land.rhs.i, label %begin_phase.exit

begin_phase.exit:
  %phase.addr.0.lcssa.i = phi i64 [ %phase.addr.0.lcssa.i.i, %nonempty_phase.exit.i ], [ %phase.addr.029.i, %land.rhs.i ], [ %phase.addr.0.lcssa.i19.i, %nonempty_phase.exit27.i ]
  %call4.i = tail call i32 @pthread_mutex_lock(ptr nonnull %mutex.i)
  %shl.i.i = shl i64 %phase.addr.0.lcssa.i, 40
  store atomic i64 %shl.i.i, ptr %team release, align 64
  %call7.i = tail call i32 @pthread_mutex_unlock(ptr nonnull %mutex.i)
  %call8.i = tail call i32 @pthread_cond_broadcast(ptr nonnull %begins.i)
  br label %for.cond.backedge

if.end32:
  br i1 %cmp33.not, label %if.end37, label %land.lhs.true

land.lhs.true:
  %add34 = add nuw nsw i64 %shr, 1
  %cmp5.i = icmp sgt i64 %2, %add34
  br i1 %cmp5.i, label %land.rhs.i69, label %nonempty_phase.exit

land.rhs.i69:
  %phase.addr.06.i = phi i64 [ %inc.i, %while.body.i ], [ %add34, %land.lhs.true ]
  %blocks.i70 = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %phase.addr.06.i, i32 1
  %17 = load i64, ptr %blocks.i70, align 8
  %cmp1.i71 = icmp eq i64 %17, 0
  br i1 %cmp1.i71, label %while.body.i, label %nonempty_phase.exit

while.body.i:
  %inc.i = add i64 %phase.addr.06.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %2
  br i1 %exitcond.not.i, label %nonempty_phase.exit, label %land.rhs.i69

nonempty_phase.exit:
  %phase.addr.0.lcssa.i68 = phi i64 [ %add34, %land.lhs.true ], [ %phase.addr.06.i, %land.rhs.i69 ], [ %2, %while.body.i ]
  %cmp35 = icmp eq i64 %phase.addr.0.lcssa.i68, %2
  br i1 %cmp35, label %return, label %if.end37

if.end37:
  %call.i = tail call i64 @now()
  br label %do.body.i

do.body.i:
  %18 = load atomic i64, ptr %team acquire, align 64
  %shr.i = lshr i64 %18, 40
  %cmp.not.i = icmp eq i64 %shr.i, %shr
  br i1 %cmp.not.i, label %do.cond.i, label %for.cond.backedge

do.cond.i:
  %call1.i = tail call zeroext i1 @pause_since(i64 %call.i)
  br i1 %call1.i, label %do.body.i, label %do.end.i

do.end.i:
  %call2.i = tail call i32 @pthread_mutex_lock(ptr nonnull %mutex.i72)
  %19 = load atomic i64, ptr %team acquire, align 64
  %shr517.i = lshr i64 %19, 40
  %cmp618.i = icmp eq i64 %shr517.i, %shr
  br i1 %cmp618.i, label %while.body.i74, label %while.end.i

while.body.i74:
  %call8.i75 = tail call i32 @pthread_cond_wait(ptr nonnull %begins.i73, ptr nonnull %mutex.i72)
  %20 = load atomic i64, ptr %team acquire, align 64
  %shr5.i = lshr i64 %20, 40
  %cmp6.i = icmp eq i64 %shr5.i, %shr
  br i1 %cmp6.i, label %while.body.i74, label %while.end.i

while.end.i:
  %call10.i = tail call i32 @pthread_mutex_unlock(ptr nonnull %mutex.i72)
  br label %for.cond.backedge

for.cond.backedge:
  %mine.0.be = phi i64 [ 0, %while.end.i ], [ %add15, %if.then12 ], [ 0, %begin_phase.exit ], [ 0, %do.body.i ]
  br label %for.cond

return:
  ret void
}

declare i32 @pthread_mutex_destroy(ptr )

declare i32 @pthread_cond_destroy(ptr )

declare i32 @pthread_mutex_lock(ptr )

declare i32 @pthread_mutex_unlock(ptr )

declare i32 @pthread_cond_broadcast(ptr )

declare i32 @pthread_cond_wait(ptr , ptr )

declare i64 @llvm.smax.i64(i64, i64)


