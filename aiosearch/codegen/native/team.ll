; The threads that run the phases of one call. They come once and stay until the last phase, for to be
; woken takes longer than many a phase. A team outlives the call: a task may come to its turn after
; all is done, and then only lets go of it. So nobody waits for a task that XLA has not begun, and
; calls that fill the pool cannot wait for each other.
;   0 the phase, above the number of its next block   1 blocks of the phase that are done
;   2 who holds on to it   3 tasks begun   4 threads   5 buffers   6 scratch memory
;   7 mutex   8 condition
%Team = type { i64, i64, i32, i32, i64, ptr, ptr, [64 x i8], [64 x i8] }

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_mutex_destroy(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_destroy(ptr)

; Gives a team of the one thread that asks, before the first phase, or null where there is no memory.
define internal ptr @gather(i64 %workers, ptr %buffers, ptr %scratch) {
entry:
  %end = getelementptr %Team, ptr null, i64 1
  %bytes = ptrtoint ptr %end to i64
  %team = call ptr @allocate(i64 %bytes)
  %lacking = icmp eq ptr %team, null
  br i1 %lacking, label %failed, label %fill
fill:
  store %Team { i64 0, i64 0, i32 1, i32 1, i64 0, ptr null, ptr null, [64 x i8] zeroinitializer, [64 x i8] zeroinitializer }, ptr %team
  %first = call i64 @busy(i64 0)
  %word = shl i64 %first, 40
  store i64 %word, ptr %team
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 4
  store i64 %workers, ptr %workers.at
  %buffers.at = getelementptr %Team, ptr %team, i64 0, i32 5
  store ptr %buffers, ptr %buffers.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 6
  store ptr %scratch, ptr %scratch.at
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 7
  %condition = getelementptr %Team, ptr %team, i64 0, i32 8
  %0 = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %1 = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret ptr %team
failed:
  ret ptr null
}

; Asks XLA for threads, works like one of them, and is back when all is done.
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
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 4
  %workers = load i64, ptr %workers.at
  %holders = getelementptr %Team, ptr %team, i64 0, i32 2
  br label %next
next:
  %i = phi i64 [ 1, %entry ], [ %i.next, %one ]
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

; What XLA runs on one of its threads.
define internal void @task(ptr %team) {
  %begun = getelementptr %Team, ptr %team, i64 0, i32 3
  %number = atomicrmw add ptr %begun, i32 1 monotonic
  %thread = zext i32 %number to i64
  call void @work(ptr %team, i64 %thread)
  call void @release(ptr %team)
  ret void
}

; Takes blocks as long as there are any, fewer at a time towards the end of a phase, so that a slow
; thread has little left when the others are done. Thread 0 is back when all is done, others may be
; back when all is begun.
define internal void @work(ptr %team, i64 %thread) {
entry:
  %count = load i64, ptr @aiosearch.phase_count
  %last = sub i64 %count, 1
  %leads = icmp eq i64 %thread, 0
  %done = getelementptr %Team, ptr %team, i64 0, i32 1
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 4
  %workers = load i64, ptr %workers.at
  %buffers.at = getelementptr %Team, ptr %team, i64 0, i32 5
  %buffers = load ptr, ptr %buffers.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 6
  %scratches = load ptr, ptr %scratch.at
  %each = load i64, ptr @aiosearch.scratch
  %offset = mul i64 %each, %thread
  %scratch = getelementptr i8, ptr %scratches, i64 %offset
  %parts = mul i64 %workers, 4
  br label %look
look:
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
  %before = atomicrmw add ptr %done, i64 %chunk acq_rel
  %sum = add i64 %before, %chunk
  %all = icmp eq i64 %sum, %blocks
  br i1 %all, label %advance, label %look
advance:
  store atomic i64 0, ptr %done monotonic, align 8
  %following = add i64 %number, 1
  call void @announce(ptr %team, i64 %following)
  br label %look
begun:
  %final = icmp eq i64 %number, %last
  %follows = xor i1 %leads, true
  %free = and i1 %final, %follows
  br i1 %free, label %over, label %stay
stay:
  call void @await(ptr %team, i64 %number)
  br label %look
over:
  ret void
}

; Begins a phase, or the first one behind it that has blocks, and wakes who waits for it.
define internal void @announce(ptr %team, i64 %phase) {
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 7
  %condition = getelementptr %Team, ptr %team, i64 0, i32 8
  %number = call i64 @busy(i64 %phase)
  %word = shl i64 %number, 40
  %1 = call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 %word, ptr %team release, align 8
  %2 = call i32 @pthread_cond_broadcast(ptr %condition)
  %3 = call i32 @pthread_mutex_unlock(ptr %mutex)
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

; Waits for the end of a phase: looks for some ten microseconds, less than it takes to be woken, then
; sleeps.
define internal void @await(ptr %team, i64 %phase) {
entry:
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 7
  %condition = getelementptr %Team, ptr %team, i64 0, i32 8
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i.next, %again ]
  %now = load atomic i64, ptr %team acquire, align 8
  %number = lshr i64 %now, 40
  %ended = icmp ne i64 %number, %phase
  br i1 %ended, label %over, label %again
again:
  %i.next = add i64 %i, 1
  %patient = icmp ult i64 %i.next, 40000
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
  %holders = getelementptr %Team, ptr %team, i64 0, i32 2
  %before = atomicrmw sub ptr %holders, i32 1 acq_rel
  %last = icmp eq i32 %before, 1
  br i1 %last, label %end, label %over
end:
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 7
  %condition = getelementptr %Team, ptr %team, i64 0, i32 8
  %0 = call i32 @pthread_mutex_destroy(ptr %mutex)
  %1 = call i32 @pthread_cond_destroy(ptr %condition)
  call void @free(ptr %team)
  br label %over
over:
  ret void
}
