; The threads that run the phases of one call. They come once and stay until the last phase, for to be
; woken takes longer than many a phase. A team outlives the call: a task may come to its turn after
; all is done, and then only lets go of it. So nobody waits for a task that XLA has not begun, and
; calls that fill the pool cannot wait for each other. What one thread writes and others look at
; meanwhile is on lines of memory of its own.
;   0 the phase, above the number of its next block
;   2 blocks of the phase that are done   3 who holds on to it   4 tasks begun
;   6 threads   7 buffers   8 scratch memory   9 what one runs who joins it
;   11 mutex   12 condition
%Team = type { i64, [56 x i8], i64, i32, i32, [48 x i8], i64, ptr, ptr, ptr, [32 x i8], [64 x i8], [64 x i8] }

; Where threads of XLA wait that were in a team, for about as long as it takes to be woken: the next
; call, of whatever kernel, finds them awake. All kernels of a process share these seats. One is free
; (0), or somebody waits there (1) or was given a team; who waits is given none or takes it, so that a
; team is never left there.
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

; Gives a team of the one thread that asks, before the first phase, or null where there is no memory.
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

; Asks threads that wait, and XLA for the others, works like one of them, and is back when all is done.
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

; Gives the team to threads that wait, so many at most; says to how many.
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
  %exchange = cmpxchg ptr %slot, i64 1, i64 %word release monotonic
  %taken = extractvalue { i64, i1 } %exchange, 1
  br i1 %taken, label %count, label %missed
missed:
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

; What XLA runs on one of its threads: what it was asked for, and then what others are in want of.
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

; Works in a team until nothing is left to begin, and lets go of it.
define internal void @join(ptr %team) {
  %begun = getelementptr %Team, ptr %team, i64 0, i32 4
  %number = atomicrmw add ptr %begun, i32 1 monotonic
  %thread = zext i32 %number to i64
  call void @work(ptr %team, i64 %thread)
  call void @release(ptr %team)
  ret void
}

; Takes blocks as long as there are any, fewer at a time towards the end of a phase, so that a slow
; thread has little left when the others are done. What a thread has done it adds up when no block is
; left. Thread 0 is back when all is done, others may be back when all is begun.
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
  %before = atomicrmw add ptr %done, i64 %mine acq_rel
  %sum = add i64 %before, %mine
  %all = icmp eq i64 %sum, %blocks
  br i1 %all, label %advance, label %idle
advance:
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

; Begins the first phase from here on that has several blocks, and wakes who waits for it: one block
; is run at once, as nobody else could help.
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

; Says whether it is less than {patience} ns since then, which is about what it takes to be woken, and
; takes some tens of ns for it.
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

; Nanoseconds of a clock that is never set.
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

; Waits for the end of a phase: looks for about as long as it takes to be woken, then sleeps.
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

; Lets go of a team; the last one frees it.
define internal void @release(ptr %team) {
entry:
  %holders = getelementptr %Team, ptr %team, i64 0, i32 3
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
