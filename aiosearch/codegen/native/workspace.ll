; The workspace: memory that a call needs beside its arrays, temporaries first, then scratch memory for
; each thread. One workspace is kept for the next call, as the page faults of new memory cost more than
; many a kernel; calls at the same time each have their own. All kernels of a process share it.

@aiosearch.offsets = external constant i64      ; of each temporary, in the workspace
@aiosearch.workspace = external constant i64    ; bytes of all temporaries
@aiosearch.scratch = external constant i64      ; bytes of each thread
@aiosearch.spare = external global ptr

declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)

; Returns the spare workspace if it is large enough, else a new one. Its size is in its first 64 bytes.
define internal ptr @take(i64 %threads) {
entry:
  %fixed = load i64, ptr @aiosearch.workspace
  %each = load i64, ptr @aiosearch.scratch
  %scratch = mul i64 %each, %threads
  %some = add i64 %fixed, %scratch
  %bytes = add i64 %some, 64
  ; Whoever exchanges the pointer owns the memory; nobody else can see it any more.
  %spare = atomicrmw xchg ptr @aiosearch.spare, ptr null acquire
  %none = icmp eq ptr %spare, null
  br i1 %none, label %new, label %old
old:
  %size = load i64, ptr %spare
  %enough = icmp uge i64 %size, %bytes
  br i1 %enough, label %found, label %small
found:
  ret ptr %spare
small:
  call void @free(ptr %spare)
  br label %new
new:
  %memory = call ptr @allocate(i64 %bytes)
  %lacking = icmp eq ptr %memory, null
  br i1 %lacking, label %failed, label %made
made:
  store i64 %bytes, ptr %memory
  ret ptr %memory
failed:
  ret ptr null
}

; Keeps a workspace as the spare one, or the larger of two if another call has returned one meanwhile.
define internal void @give(ptr %workspace) {
entry:
  %own = load i64, ptr %workspace
  %before = atomicrmw xchg ptr @aiosearch.spare, ptr %workspace acq_rel
  %none = icmp eq ptr %before, null
  br i1 %none, label %done, label %two
two:
  %size = load i64, ptr %before
  %larger = icmp ugt i64 %size, %own
  br i1 %larger, label %back, label %free
back:
  ; A third call may have put its own there meanwhile: whatever comes back is freed, so none is lost.
  %smaller = atomicrmw xchg ptr @aiosearch.spare, ptr %before acq_rel
  call void @free(ptr %smaller)
  ret void
free:
  call void @free(ptr %before)
  ret void
done:
  ret void
}

define internal ptr @allocate(i64 %bytes) {
entry:
  %where = alloca ptr
  %failed = call i32 @posix_memalign(ptr %where, i64 64, i64 %bytes)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %made, label %lacking
made:
  %memory = load ptr, ptr %where
  ret ptr %memory
lacking:
  ret ptr null
}

; Places temporaries in the workspace, and returns where scratch memory begins.
define internal ptr @place(ptr %workspace, i64 %temporaries, ptr %into) {
entry:
  %begin = getelementptr i8, ptr %workspace, i64 64
  %fixed = load i64, ptr @aiosearch.workspace
  %scratch = getelementptr i8, ptr %begin, i64 %fixed
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %more = icmp ult i64 %i, %temporaries
  br i1 %more, label %one, label %done
one:
  %offset.at = getelementptr i64, ptr @aiosearch.offsets, i64 %i
  %offset = load i64, ptr %offset.at
  %memory = getelementptr i8, ptr %begin, i64 %offset
  %place = getelementptr ptr, ptr %into, i64 %i
  store ptr %memory, ptr %place
  %i.next = add i64 %i, 1
  br label %next
done:
  ret ptr %scratch
}
