; How a thread waits for memory that another one writes, without going to sleep. What depends on the
; machine stands here, so that team.c can be compiled for all of them.

declare i32 @clock_gettime(i32, ptr)
declare void @{pause}({kind})

; Says whether it is less than {patience} ns since then, which is about what it takes to be woken, and
; takes some tens of ns for it.
define internal i1 @pause_since(i64 %begin) {
  call void @{pause}({kind} {argument})
  call void @{pause}({kind} {argument})
  call void @{pause}({kind} {argument})
  call void @{pause}({kind} {argument})
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
  %nanoseconds.at = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %nanoseconds.at
  %whole = mul i64 %seconds, 1000000000
  %time.ns = add i64 %whole, %nanoseconds
  ret i64 %time.ns
}
