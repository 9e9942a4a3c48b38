; The threads that run one phase. A team outlives the call: a task may come to its turn after all is
; done, and then only lets go of it. So nobody waits for a task that XLA has not begun, and calls
; that fill the pool cannot wait for each other.
;   0 the next block   1 blocks done   2 who holds on to it   3 tasks begun   4 whether all is done
;   5 function   6 blocks   7 threads   8 buffers   9 scratch memory   10 mutex   11 condition
%Team = type { i64, i64, i32, i32, i32, ptr, i64, i64, ptr, ptr, [64 x i8], [64 x i8] }

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_mutex_destroy(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_destroy(ptr)

; Gives a team of the one thread that asks, or null where there is no memory.
define internal ptr @gather(ptr %function, i64 %blocks, i64 %workers, ptr %buffers, ptr %scratch) {
entry:
  %end = getelementptr %Team, ptr null, i64 1
  %bytes = ptrtoint ptr %end to i64
  %team = call ptr @allocate(i64 %bytes)
  %lacking = icmp eq ptr %team, null
  br i1 %lacking, label %failed, label %fill
fill:
  store %Team { i64 0, i64 0, i32 1, i32 1, i32 0, ptr null, i64 0, i64 0, ptr null, ptr null, [64 x i8] zeroinitializer, [64 x i8] zeroinitializer }, ptr %team
  %function.at = getelementptr %Team, ptr %team, i64 0, i32 5
  store ptr %function, ptr %function.at
  %blocks.at = getelementptr %Team, ptr %team, i64 0, i32 6
  store i64 %blocks, ptr %blocks.at
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 7
  store i64 %workers, ptr %workers.at
  %buffers.at = getelementptr %Team, ptr %team, i64 0, i32 8
  store ptr %buffers, ptr %buffers.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 9
  store ptr %scratch, ptr %scratch.at
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 10
  %condition = getelementptr %Team, ptr %team, i64 0, i32 11
  %0 = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %1 = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret ptr %team
failed:
  ret ptr null
}

; Asks XLA for threads, works like one of them, and waits for what others have begun.
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
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 7
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
  call void @await(ptr %team)
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

; Takes blocks as long as there are any, fewer at a time towards the end, so that a slow thread
; has little left when the others are done.
define internal void @work(ptr %team, i64 %thread) {
entry:
  %done = getelementptr %Team, ptr %team, i64 0, i32 1
  %function.at = getelementptr %Team, ptr %team, i64 0, i32 5
  %function = load ptr, ptr %function.at
  %blocks.at = getelementptr %Team, ptr %team, i64 0, i32 6
  %blocks = load i64, ptr %blocks.at
  %workers.at = getelementptr %Team, ptr %team, i64 0, i32 7
  %workers = load i64, ptr %workers.at
  %buffers.at = getelementptr %Team, ptr %team, i64 0, i32 8
  %buffers = load ptr, ptr %buffers.at
  %scratch.at = getelementptr %Team, ptr %team, i64 0, i32 9
  %scratches = load ptr, ptr %scratch.at
  %each = load i64, ptr @aiosearch.scratch
  %offset = mul i64 %each, %thread
  %scratch = getelementptr i8, ptr %scratches, i64 %offset
  %parts = mul i64 %workers, 4
  br label %look
look:
  %next = load atomic i64, ptr %team monotonic, align 8
  br label %claim
claim:
  %begin = phi i64 [ %next, %look ], [ %seen, %try ]
  %more = icmp ult i64 %begin, %blocks
  br i1 %more, label %try, label %over
try:
  %left = sub i64 %blocks, %begin
  %share = udiv i64 %left, %parts
  %some = icmp ugt i64 %share, 1
  %chunk = select i1 %some, i64 %share, i64 1
  %end = add i64 %begin, %chunk
  %exchange = cmpxchg ptr %team, i64 %begin, i64 %end monotonic monotonic
  %seen = extractvalue { i64, i1 } %exchange, 0
  %ours = extractvalue { i64, i1 } %exchange, 1
  br i1 %ours, label %run, label %claim
run:
  call void %function(ptr %buffers, ptr %scratch, i64 %begin, i64 %end)
  %before = atomicrmw add ptr %done, i64 %chunk acq_rel
  %sum = add i64 %before, %chunk
  %last = icmp eq i64 %sum, %blocks
  br i1 %last, label %tell, label %look
tell:
  call void @tell(ptr %team)
  ret void
over:
  ret void
}

define internal void @tell(ptr %team) {
  %all = getelementptr %Team, ptr %team, i64 0, i32 4
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 10
  %condition = getelementptr %Team, ptr %team, i64 0, i32 11
  %1 = call i32 @pthread_mutex_lock(ptr %mutex)
  store i32 1, ptr %all
  %2 = call i32 @pthread_cond_signal(ptr %condition)
  %3 = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; Looks for some ten microseconds, less than it takes to be woken, then sleeps.
define internal void @await(ptr %team) {
entry:
  %done = getelementptr %Team, ptr %team, i64 0, i32 1
  %blocks.at = getelementptr %Team, ptr %team, i64 0, i32 6
  %blocks = load i64, ptr %blocks.at
  %all = getelementptr %Team, ptr %team, i64 0, i32 4
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 10
  %condition = getelementptr %Team, ptr %team, i64 0, i32 11
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i.next, %again ]
  %now = load atomic i64, ptr %done acquire, align 8
  %ready = icmp eq i64 %now, %blocks
  br i1 %ready, label %over, label %again
again:
  %i.next = add i64 %i, 1
  %patient = icmp ult i64 %i.next, 40000
  br i1 %patient, label %look, label %sleep
sleep:
  %0 = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check
check:
  %told = load i32, ptr %all
  %awake = icmp ne i32 %told, 0
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
  %mutex = getelementptr %Team, ptr %team, i64 0, i32 10
  %condition = getelementptr %Team, ptr %team, i64 0, i32 11
  %0 = call i32 @pthread_mutex_destroy(ptr %mutex)
  %1 = call i32 @pthread_cond_destroy(ptr %condition)
  call void @free(ptr %team)
  br label %over
over:
  ret void
}
