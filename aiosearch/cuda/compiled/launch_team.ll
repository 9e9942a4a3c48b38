; How threads share the blocks of a launch, and look for the next launch before they go to sleep.
;
; The words of a team, in cache lines of 8: the ticket; how many blocks are done; how many helpers
; are here; and the launch. A ticket is the number of a launch above, and below, in 36 bits, how many
; of its blocks nobody has begun. Who lowers it has the blocks in between. A launch's words change
; only when all its blocks are done, so when a ticket could be lowered, what was read since it was
; looked at is of that launch: a helper that comes late does nothing wrong.
;
; The launch is { function, arguments, blocks, chunk, bytes of scratch memory, whole, first, second }.
; A function is passed the first block and the one behind the last one, both counted from `first`,
; or, if `whole` is not 0, `first` and `second` themselves.

declare i32 @sched_yield()

; Does some blocks: 1, or 0 if all are begun, or 2 if the scratch memory is too small for them.
define internal i32 @share(ptr %team, ptr %scratch, i64 %capacity) {
entry:
  %ticket = load atomic i64, ptr %team acquire, align 8
  %left = and i64 %ticket, 68719476735
  %none = icmp eq i64 %left, 0
  br i1 %none, label %idle, label %present

idle:
  ret i32 0

present:
  %launch = getelementptr i64, ptr %team, i64 24
  %arguments.at = getelementptr i64, ptr %team, i64 25
  %blocks.at = getelementptr i64, ptr %team, i64 26
  %chunk.at = getelementptr i64, ptr %team, i64 27
  %bytes.at = getelementptr i64, ptr %team, i64 28
  %whole.at = getelementptr i64, ptr %team, i64 29
  %first.at = getelementptr i64, ptr %team, i64 30
  %second.at = getelementptr i64, ptr %team, i64 31
  %function = load atomic ptr, ptr %launch monotonic, align 8
  %arguments = load atomic ptr, ptr %arguments.at monotonic, align 8
  %blocks = load atomic i64, ptr %blocks.at monotonic, align 8
  %chunk = load atomic i64, ptr %chunk.at monotonic, align 8
  %bytes = load atomic i64, ptr %bytes.at monotonic, align 8
  %whole = load atomic i64, ptr %whole.at monotonic, align 8
  %first = load atomic i64, ptr %first.at monotonic, align 8
  %second = load atomic i64, ptr %second.at monotonic, align 8
  %large = icmp ugt i64 %bytes, %capacity
  br i1 %large, label %small, label %take

small:
  ret i32 2

take:
  %count = call i64 @llvm.umin.i64(i64 %chunk, i64 %left)
  %lower = sub i64 %ticket, %count
  %pair = cmpxchg ptr %team, i64 %ticket, i64 %lower acq_rel monotonic, align 8
  %lowered = extractvalue { i64, i1 } %pair, 1
  br i1 %lowered, label %work, label %again

work:
  %before.all = sub i64 %blocks, %left
  %begin = add i64 %first, %before.all
  %end = add i64 %begin, %count
  %by.block = icmp eq i64 %whole, 0
  %low = select i1 %by.block, i64 %begin, i64 %first
  %high = select i1 %by.block, i64 %end, i64 %second
  call void %function(ptr %arguments, ptr %scratch, i64 %low, i64 %high)
  %done = getelementptr i64, ptr %team, i64 8
  %before = atomicrmw add ptr %done, i64 %count acq_rel, align 8
  br label %again

again:
  ret i32 1
}

; What a helper does: shares launches until there was none for a while. Says whether its scratch
; memory is too small; it is still counted then.
define i64 @help(ptr %team, ptr %scratch, i64 %capacity) {
entry:
  br label %work

work:
  %shared = call i32 @share(ptr %team, ptr %scratch, i64 %capacity)
  switch i32 %shared, label %work [ i32 0, label %rest
                                    i32 2, label %grow ]

grow:
  ret i64 1

rest:
  %since = call i64 @now()
  br label %look

look:
  %ticket = load atomic i64, ptr %team acquire, align 8
  %left = and i64 %ticket, 68719476735
  %none = icmp eq i64 %left, 0
  br i1 %none, label %wait, label %work

wait:
  %patient = call i1 @pause_since(i64 %since)
  br i1 %patient, label %look, label %leave

leave:
  %present = getelementptr i64, ptr %team, i64 16
  %before = atomicrmw sub ptr %present, i64 1 seq_cst, align 8
  ret i64 0
}

; How many of so many helpers are not here; from now on they are counted.
define i64 @missing(ptr %team, i64 %helpers) {
entry:
  %present = getelementptr i64, ptr %team, i64 16
  %before = atomicrmw umax ptr %present, i64 %helpers seq_cst, align 8
  %missing = sub i64 %helpers, %before
  ret i64 %missing
}

; Begins the launch that stands in the words, and is back when it is done.
define void @lead(ptr %team, ptr %scratch, i64 %capacity) {
entry:
  %blocks.at = getelementptr i64, ptr %team, i64 26
  %done = getelementptr i64, ptr %team, i64 8
  %blocks = load i64, ptr %blocks.at, align 8
  store atomic i64 0, ptr %done monotonic, align 8
  %last = load atomic i64, ptr %team monotonic, align 8
  %number = lshr i64 %last, 36
  %following = add i64 %number, 1
  %above = shl i64 %following, 36
  %ticket = or i64 %above, %blocks
  store atomic i64 %ticket, ptr %team release, align 8
  br label %work

work:
  %shared = call i32 @share(ptr %team, ptr %scratch, i64 %capacity)
  %went = icmp eq i32 %shared, 1
  br i1 %went, label %work, label %rest

rest:
  %since = call i64 @now()
  br label %look

look:
  %count = load atomic i64, ptr %done acquire, align 8
  %over = icmp eq i64 %count, %blocks
  br i1 %over, label %end, label %wait

; Some blocks are begun and not done: their threads may need this core.
wait:
  %patient = call i1 @pause_since(i64 %since)
  br i1 %patient, label %look, label %yield

yield:
  %yielded = call i32 @sched_yield()
  br label %look

end:
  ret void
}
