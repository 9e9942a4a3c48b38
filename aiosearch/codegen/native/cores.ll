; Which core a thread runs on, and how it leaves one, on Linux.

declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; The number of the core that this thread runs on, negative where that is not known.
define internal i64 @core() {
  %number = call i32 @sched_getcpu()
  %core = sext i32 %number to i64
  ret i64 %core
}

; Moves this thread to another of its cores, if it has any, and lets it be moved anywhere afterwards.
; Linux has a bit for each core in a mask; one without any bits is refused, and changes nothing.
define internal void @leave(i64 %core) {
entry:
  %all = alloca [128 x i8], align 8
  %others = alloca [128 x i8], align 8
  %refused = call i32 @sched_getaffinity(i32 0, i64 128, ptr %all)
  %known = icmp eq i32 %refused, 0
  %within = icmp ult i64 %core, 1024
  %possible = and i1 %known, %within
  br i1 %possible, label %move, label %done
move:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %others, ptr align 8 %all, i64 128, i1 false)
  %byte = lshr i64 %core, 3
  %place = getelementptr i8, ptr %others, i64 %byte
  %eight = load i8, ptr %place
  %within.byte = and i64 %core, 7
  %shift = trunc i64 %within.byte to i8
  %bit = shl i8 1, %shift
  %rest = xor i8 %bit, -1
  %cleared = and i8 %eight, %rest
  store i8 %cleared, ptr %place
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %back = call i32 @sched_setaffinity(i32 0, i64 128, ptr %all)
  br label %done
done:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
