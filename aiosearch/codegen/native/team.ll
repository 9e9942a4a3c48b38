; Compiled of team.c by clang-19; sha256 22a67d3ee88f04747ecebedb3479c7baa6587bf21cbcc4b7dc7f061b715a96b0

%struct.phase = type { ptr, i64 }
%struct.seat = type { i64, i64, [48 x i8] }
%struct.schedule = type { i64, ptr, ptr, ptr, ptr }

@aiosearch.seats = external global [64 x %struct.seat], align 64

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
  %call.i = tail call i64 @core()
  %core.i = getelementptr inbounds i8, ptr %call, i64 160
  store atomic i64 %call.i, ptr %core.i monotonic, align 32
  %mutex = getelementptr inbounds i8, ptr %call, i64 192
  %call9 = tail call i32 @pthread_mutex_init(ptr nonnull %mutex, ptr null)
  %begins = getelementptr inbounds i8, ptr %call, i64 256
  %call10 = tail call i32 @pthread_cond_init(ptr nonnull %begins, ptr null)
  br label %return

return:
  %retval.0 = phi ptr [ %call, %nonempty_phase.exit ], [ null, %entry ]
  ret ptr %retval.0
}

define internal void @join_team(ptr %team) {
entry:
  %begun = getelementptr inbounds i8, ptr %team, i64 76
  %0 = atomicrmw add ptr %begun, i32 1 monotonic, align 4
  %conv = sext i32 %0 to i64
  %call.i = tail call i64 @core()
  %cmp.i = icmp eq i32 %0, 0
  %core.i = getelementptr inbounds i8, ptr %team, i64 160
  br i1 %cmp.i, label %if.then.i, label %if.else.i

if.then.i:
  store atomic i64 %call.i, ptr %core.i monotonic, align 32
  br label %keep_apart.exit

if.else.i:
  %1 = load atomic i64, ptr %core.i monotonic, align 32
  %cmp2.i = icmp eq i64 %call.i, %1
  br i1 %cmp2.i, label %if.then3.i, label %keep_apart.exit

if.then3.i:
  tail call void @leave(i64 %call.i)
  br label %keep_apart.exit

keep_apart.exit:
  tail call fastcc void @work(ptr %team, i64 %conv)
  %holders.i = getelementptr inbounds i8, ptr %team, i64 72
  %2 = atomicrmw sub ptr %holders.i, i32 1 acq_rel, align 8
  %cmp.not.i = icmp eq i32 %2, 1
  br i1 %cmp.not.i, label %if.end.i, label %release_team.exit

if.end.i:
  %mutex.i = getelementptr inbounds i8, ptr %team, i64 192
  %call.i5 = tail call i32 @pthread_mutex_destroy(ptr nonnull %mutex.i)
  %begins.i = getelementptr inbounds i8, ptr %team, i64 256
  %call1.i = tail call i32 @pthread_cond_destroy(ptr nonnull %begins.i)
  tail call void @free(ptr %team)
  br label %release_team.exit

release_team.exit:
  ret void
}

declare i32 @pthread_mutex_init(ptr , ptr )

declare i32 @pthread_cond_init(ptr , ptr )

define internal void @lead(ptr %api, ptr %context, ptr %team) {
entry:
  %request = alloca %struct.schedule, align 8
  store i64 40, ptr %request, align 8
  %extension = getelementptr inbounds i8, ptr %request, i64 8
  store ptr null, ptr %extension, align 8
  %context1 = getelementptr inbounds i8, ptr %request, i64 16
  store ptr %context, ptr %context1, align 8
  %task = getelementptr inbounds i8, ptr %request, i64 24
  store ptr @task, ptr %task, align 8
  %data = getelementptr inbounds i8, ptr %request, i64 32
  store ptr %team, ptr %data, align 8
  %workers = getelementptr inbounds i8, ptr %team, i64 128
  %0 = load i64, ptr %workers, align 64
  %sub = add nsw i64 %0, -1
  %cmp120.i = icmp sgt i64 %0, 1
  br i1 %cmp120.i, label %for.body.lr.ph.i, label %seat_team.exit

for.body.lr.ph.i:
  %holders.i = getelementptr inbounds i8, ptr %team, i64 72
  %1 = ptrtoint ptr %team to i64
  br label %for.body.i

for.body.i:
  %given.022.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %given.1.i, %for.inc.i ]
  %i.021.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %inc12.i, %for.inc.i ]
  %arrayidx.i = getelementptr inbounds [64 x %struct.seat], ptr @aiosearch.seats, i64 0, i64 %i.021.i
  %2 = load atomic i64, ptr %arrayidx.i monotonic, align 64
  %cmp2.not.i = icmp eq i64 %2, 1
  br i1 %cmp2.not.i, label %if.end.i, label %for.inc.i

if.end.i:
  %3 = atomicrmw add ptr %holders.i, i32 1 monotonic, align 8
  %4 = cmpxchg ptr %arrayidx.i, i64 1, i64 %1 release monotonic, align 64
  %5 = extractvalue { i64, i1 } %4, 1
  br i1 %5, label %if.then7.i, label %if.else.i

if.then7.i:
  %inc.i = add nsw i64 %given.022.i, 1
  br label %for.inc.i

if.else.i:
  %6 = atomicrmw sub ptr %holders.i, i32 1 monotonic, align 8
  br label %for.inc.i

for.inc.i:
  %given.1.i = phi i64 [ %given.022.i, %for.body.i ], [ %inc.i, %if.then7.i ], [ %given.022.i, %if.else.i ]
  %inc12.i = add nuw nsw i64 %i.021.i, 1
  %cmp.i = icmp ult i64 %i.021.i, 63
  %cmp1.i = icmp slt i64 %given.1.i, %sub
  %7 = select i1 %cmp.i, i1 %cmp1.i, i1 false
  br i1 %7, label %for.body.i, label %seat_team.exit

seat_team.exit:
  %given.0.lcssa.i = phi i64 [ 0, %entry ], [ %given.1.i, %for.inc.i ]
  %holders = getelementptr inbounds i8, ptr %team, i64 72
  %arrayidx = getelementptr inbounds i8, ptr %api, i64 136
  br label %for.cond

for.cond:
  %i.0.in = phi i64 [ %given.0.lcssa.i, %seat_team.exit ], [ %i.0, %for.body ]
  %i.0 = add nsw i64 %i.0.in, 1
  %8 = load i64, ptr %workers, align 64
  %cmp = icmp slt i64 %i.0, %8
  br i1 %cmp, label %for.body, label %for.end

for.body:
  %9 = atomicrmw add ptr %holders, i32 1 monotonic, align 8
  %10 = load ptr, ptr %arrayidx, align 8
  %call3 = call ptr %10(ptr nonnull %request)
  %cmp4.not = icmp eq ptr %call3, null
  br i1 %cmp4.not, label %for.cond, label %if.then

if.then:
  call void @forget(ptr %api, ptr nonnull %call3)
  %11 = atomicrmw sub ptr %holders, i32 1 acq_rel, align 8
  %cmp.not.i = icmp eq i32 %11, 1
  br i1 %cmp.not.i, label %if.end.i16, label %for.end

if.end.i16:
  %mutex.i = getelementptr inbounds i8, ptr %team, i64 192
  %call.i = call i32 @pthread_mutex_destroy(ptr nonnull %mutex.i)
  %begins.i = getelementptr inbounds i8, ptr %team, i64 256
  %call1.i = call i32 @pthread_cond_destroy(ptr nonnull %begins.i)
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
  tail call void @join_team(ptr %data)
  br label %for.body

for.body:
  %i.045 = phi i64 [ 0, %entry ], [ %inc, %for.inc ]
  %arrayidx = getelementptr inbounds [64 x %struct.seat], ptr @aiosearch.seats, i64 0, i64 %i.045
  %0 = load atomic i64, ptr %arrayidx monotonic, align 64
  %cmp1.not = icmp eq i64 %0, 0
  br i1 %cmp1.not, label %if.end, label %for.inc

if.end:
  %1 = cmpxchg ptr %arrayidx, i64 0, i64 1 monotonic monotonic, align 64
  %2 = extractvalue { i64, i1 } %1, 1
  br i1 %2, label %if.end5, label %for.inc

if.end5:
  %missed7 = getelementptr inbounds i8, ptr %arrayidx, i64 8
  %3 = load atomic i64, ptr %missed7 monotonic, align 8
  %call = tail call i64 @now()
  %cmp.i = icmp ult i64 %3, 4
  %rem.i = and i64 %3, 15
  %cmp1.i = icmp eq i64 %rem.i, 0
  %4 = or i1 %cmp.i, %cmp1.i
  %cond.i = select i1 %4, i64 9223372036854775807, i64 2000
  br label %while.cond

while.cond:
  %5 = load atomic i64, ptr %arrayidx monotonic, align 64
  %cmp13 = icmp eq i64 %5, 1
  br i1 %cmp13, label %land.lhs.true, label %while.end

land.lhs.true:
  %call14 = tail call zeroext i1 @pause_since(i64 %call)
  br i1 %call14, label %land.rhs, label %while.end

land.rhs:
  %call15 = tail call i64 @now()
  %sub = sub nsw i64 %call15, %call
  %cmp16 = icmp slt i64 %sub, %cond.i
  br i1 %cmp16, label %while.cond, label %while.end

while.end:
  %6 = load atomic i64, ptr %arrayidx monotonic, align 64
  %cmp20.not = icmp eq i64 %6, 1
  %add = add i64 %3, 1
  %cond = select i1 %cmp20.not, i64 %add, i64 0
  store atomic i64 %cond, ptr %missed7 monotonic, align 8
  %7 = atomicrmw xchg ptr %arrayidx, i64 0 acquire, align 64
  %cmp30 = icmp eq i64 %7, 1
  br i1 %cmp30, label %for.end, label %if.end32

if.end32:
  %8 = inttoptr i64 %7 to ptr
  %join = getelementptr inbounds i8, ptr %8, i64 152
  %9 = load ptr, ptr %join, align 8
  tail call void %9(ptr %8)
  br label %for.inc

for.inc:
  %i.1 = phi i64 [ %i.045, %for.body ], [ -1, %if.end32 ], [ %i.045, %if.end ]
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
  %mutex.i73 = getelementptr inbounds i8, ptr %team, i64 192
  %begins.i74 = getelementptr inbounds i8, ptr %team, i64 256
  %core1.i.i = getelementptr inbounds i8, ptr %team, i64 160
  %core.i.i = getelementptr inbounds i8, ptr %team, i64 160
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
  br i1 %cmp5.i, label %land.rhs.i70, label %nonempty_phase.exit

land.rhs.i70:
  %phase.addr.06.i = phi i64 [ %inc.i, %while.body.i ], [ %add34, %land.lhs.true ]
  %blocks.i71 = getelementptr inbounds [0 x %struct.phase], ptr @aiosearch.phases, i64 0, i64 %phase.addr.06.i, i32 1
  %17 = load i64, ptr %blocks.i71, align 8
  %cmp1.i72 = icmp eq i64 %17, 0
  br i1 %cmp1.i72, label %while.body.i, label %nonempty_phase.exit

while.body.i:
  %inc.i = add i64 %phase.addr.06.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i, %2
  br i1 %exitcond.not.i, label %nonempty_phase.exit, label %land.rhs.i70

nonempty_phase.exit:
  %phase.addr.0.lcssa.i69 = phi i64 [ %add34, %land.lhs.true ], [ %phase.addr.06.i, %land.rhs.i70 ], [ %2, %while.body.i ]
  %cmp35 = icmp eq i64 %phase.addr.0.lcssa.i69, %2
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
  %call2.i = tail call i32 @pthread_mutex_lock(ptr nonnull %mutex.i73)
  %19 = load atomic i64, ptr %team acquire, align 64
  %shr518.i = lshr i64 %19, 40
  %cmp619.i = icmp eq i64 %shr518.i, %shr
  br i1 %cmp619.i, label %while.body.i75, label %while.end.i

while.body.i75:
  %call8.i76 = tail call i32 @pthread_cond_wait(ptr nonnull %begins.i74, ptr nonnull %mutex.i73)
  %20 = load atomic i64, ptr %team acquire, align 64
  %shr5.i = lshr i64 %20, 40
  %cmp6.i = icmp eq i64 %shr5.i, %shr
  br i1 %cmp6.i, label %while.body.i75, label %while.end.i

while.end.i:
  %call10.i = tail call i32 @pthread_mutex_unlock(ptr nonnull %mutex.i73)
  %call.i.i = tail call i64 @core()
  br i1 %cmp33.not, label %if.then.i.i, label %if.else.i.i

if.then.i.i:
  store atomic i64 %call.i.i, ptr %core.i.i monotonic, align 32
  br label %for.cond.backedge

if.else.i.i:
  %21 = load atomic i64, ptr %core1.i.i monotonic, align 32
  %cmp2.i.i = icmp eq i64 %call.i.i, %21
  br i1 %cmp2.i.i, label %if.then3.i.i, label %for.cond.backedge

if.then3.i.i:
  tail call void @leave(i64 %call.i.i)
  br label %for.cond.backedge

for.cond.backedge:
  %mine.0.be = phi i64 [ 0, %if.then3.i.i ], [ 0, %if.else.i.i ], [ 0, %if.then.i.i ], [ %add15, %if.then12 ], [ 0, %begin_phase.exit ], [ 0, %do.body.i ]
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


