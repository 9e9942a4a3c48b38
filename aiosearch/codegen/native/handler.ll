; How XLA calls a kernel program: the handler reads pointers from XLA's call frame and runs the
; phases, one after the other, on XLA's own threads. It is the same for all programs, and compiled
; once; each program comes with the constants that it looks into, which `handler.py` writes.

; Structures of xla/ffi/api/c_api.h, up to the last field that is used. Each begins with its size
; and a chain of extensions.
%Extension = type { i64, i32, ptr }
%MetadataExtension = type { %Extension, ptr }
%Version = type { i64, ptr, i32, i32 }
%Metadata = type { i64, %Version, i32 }
%Values = type { i64, ptr, i64, ptr, ptr }                   ; .., count, kinds, values
%Frame = type { i64, ptr, ptr, ptr, i32, %Values, %Values }  ; .., api, context, stage, args, rets
%Buffer = type { i64, ptr, i32, ptr, i64, ptr }              ; .., element type, data, rank, dims
%Api = type { i64, ptr, %Version, ptr, [13 x ptr] }          ; .., version, internal, functions
%ErrorCreate = type { i64, ptr, ptr, i32 }                   ; .., message, code
%ErrorDestroy = type { i64, ptr, ptr }                       ; .., error
%NumThreads = type { i64, ptr, ptr, ptr }                    ; .., context, count
%Schedule = type { i64, ptr, ptr, ptr, ptr }                 ; .., context, task, data

%Phase = type { ptr, i64 }  ; function, blocks

@aiosearch.inputs = external constant i64       ; how many arrays come in,
@aiosearch.outputs = external constant i64      ; and go out
@aiosearch.types = external constant i64        ; of each array: element type, rank, sizes
@aiosearch.temporaries = external constant i64  ; how many
@aiosearch.phases = external constant %Phase
@aiosearch.phase_count = external constant i64

@differs = private constant [64 x i8] c"the arrays are not of the types that this kernel was made for\00\00\00"
@lacking = private constant [32 x i8] c"out of memory for temporaries\00\00\00"

define ptr @aiosearch.handler(ptr %frame) {
entry:
  %extension.at = getelementptr %Frame, ptr %frame, i64 0, i32 1
  %extension = load ptr, ptr %extension.at
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %call, label %extended
extended:
  %kind.at = getelementptr %Extension, ptr %extension, i64 0, i32 1
  %kind = load i32, ptr %kind.at
  %asked = icmp eq i32 %kind, 1
  br i1 %asked, label %answer, label %call
answer:
  call void @describe(ptr %extension)
  ret ptr null
call:
  %error = call ptr @execute(ptr %frame)
  ret ptr %error
}

; Answers XLA's question for the interface version that this handler is written for.
define internal void @describe(ptr %extension) {
  %metadata.at = getelementptr %MetadataExtension, ptr %extension, i64 0, i32 1
  %metadata = load ptr, ptr %metadata.at
  %major.at = getelementptr %Metadata, ptr %metadata, i64 0, i32 1, i32 2
  %minor.at = getelementptr %Metadata, ptr %metadata, i64 0, i32 1, i32 3
  %traits.at = getelementptr %Metadata, ptr %metadata, i64 0, i32 2
  store i32 {major}, ptr %major.at
  store i32 {minor}, ptr %minor.at
  store i32 0, ptr %traits.at
  ret void
}

define internal ptr @execute(ptr %frame) {
entry:
  %inputs = load i64, ptr @aiosearch.inputs
  %outputs = load i64, ptr @aiosearch.outputs
  %temporaries = load i64, ptr @aiosearch.temporaries
  %arrays = add i64 %inputs, %outputs
  %all = add i64 %arrays, %temporaries
  %buffers = alloca ptr, i64 %all, align 16
  %api.at = getelementptr %Frame, ptr %frame, i64 0, i32 2
  %api = load ptr, ptr %api.at
  %context.at = getelementptr %Frame, ptr %frame, i64 0, i32 3
  %context = load ptr, ptr %context.at
  %args = getelementptr %Frame, ptr %frame, i64 0, i32 5
  %rets = getelementptr %Frame, ptr %frame, i64 0, i32 6
  %results = getelementptr ptr, ptr %buffers, i64 %inputs
  %after = call ptr @read(ptr %args, i64 %inputs, ptr @aiosearch.types, ptr %buffers)
  %bad = icmp eq ptr %after, null
  br i1 %bad, label %mismatch, label %second
second:
  %end = call ptr @read(ptr %rets, i64 %outputs, ptr %after, ptr %results)
  %worse = icmp eq ptr %end, null
  br i1 %worse, label %mismatch, label %ready
ready:
  %threads = call i64 @threads(ptr %api, ptr %context)
  %workspace = call ptr @take(i64 %threads)
  %none = icmp eq ptr %workspace, null
  br i1 %none, label %exhausted, label %filled
filled:
  %others = getelementptr ptr, ptr %buffers, i64 %arrays
  %scratch = call ptr @place(ptr %workspace, i64 %temporaries, ptr %others)
  call void @phases.run(ptr %api, ptr %context, ptr %buffers, ptr %scratch, i64 %threads)
  call void @give(ptr %workspace)
  ret ptr null
mismatch:
  %invalid = call ptr @fail(ptr %api, ptr @differs, i32 3)
  ret ptr %invalid
exhausted:
  %resource = call ptr @fail(ptr %api, ptr @lacking, i32 8)
  ret ptr %resource
}

; Reads the pointers of arrays, whose types must be those of the list: element type, rank and sizes of
; each. Returns the end of the part of the list that it has read, or null for a mismatch.
define internal ptr @read(ptr %values, i64 %wanted, ptr %types, ptr %into) {
entry:
  %count.at = getelementptr %Values, ptr %values, i64 0, i32 2
  %count = load i64, ptr %count.at
  %as.many = icmp eq i64 %count, %wanted
  br i1 %as.many, label %start, label %differ
start:
  %list.at = getelementptr %Values, ptr %values, i64 0, i32 4
  %list = load ptr, ptr %list.at
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %i.next, %matched ]
  %type = phi ptr [ %types, %start ], [ %size.end, %matched ]
  %more = icmp ult i64 %i, %wanted
  br i1 %more, label %one, label %done
one:
  %buffer.at = getelementptr ptr, ptr %list, i64 %i
  %buffer = load ptr, ptr %buffer.at
  %element.at = getelementptr %Buffer, ptr %buffer, i64 0, i32 2
  %element.narrow = load i32, ptr %element.at
  %element = zext i32 %element.narrow to i64
  %data.at = getelementptr %Buffer, ptr %buffer, i64 0, i32 3
  %data = load ptr, ptr %data.at
  %rank.at = getelementptr %Buffer, ptr %buffer, i64 0, i32 4
  %rank = load i64, ptr %rank.at
  %dims.at = getelementptr %Buffer, ptr %buffer, i64 0, i32 5
  %dims = load ptr, ptr %dims.at
  %place = getelementptr ptr, ptr %into, i64 %i
  store ptr %data, ptr %place
  %i.next = add i64 %i, 1
  %element.wanted = load i64, ptr %type
  %type.rank = getelementptr i64, ptr %type, i64 1
  %rank.wanted = load i64, ptr %type.rank
  %sizes = getelementptr i64, ptr %type, i64 2
  %size.end = getelementptr i64, ptr %sizes, i64 %rank
  %same.element = icmp eq i64 %element, %element.wanted
  %same.rank = icmp eq i64 %rank, %rank.wanted
  %same = and i1 %same.element, %same.rank
  br i1 %same, label %sizes.next, label %differ
sizes.next:
  %axis = phi i64 [ 0, %one ], [ %axis.next, %size.same ]
  %axes = icmp ult i64 %axis, %rank
  br i1 %axes, label %size, label %matched
size:
  %dim.at = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %dim.at
  %dim.wanted.at = getelementptr i64, ptr %sizes, i64 %axis
  %dim.wanted = load i64, ptr %dim.wanted.at
  %same.dim = icmp eq i64 %dim, %dim.wanted
  br i1 %same.dim, label %size.same, label %differ
size.same:
  %axis.next = add i64 %axis, 1
  br label %sizes.next
matched:
  br label %next
done:
  ret ptr %type
differ:
  ret ptr null
}

; The number of XLA's threads; one if it does not say.
define internal i64 @threads(ptr %api, ptr %context) {
entry:
  %count = alloca i64
  store i64 1, ptr %count
  %request = alloca %NumThreads
  store %NumThreads { i64 32, ptr null, ptr null, ptr null }, ptr %request
  %context.at = getelementptr %NumThreads, ptr %request, i64 0, i32 2
  store ptr %context, ptr %context.at
  %count.at = getelementptr %NumThreads, ptr %request, i64 0, i32 3
  store ptr %count, ptr %count.at
  %function.at = getelementptr %Api, ptr %api, i64 0, i32 4, i64 12
  %function = load ptr, ptr %function.at
  %error = call ptr %function(ptr %request)
  %found = icmp eq ptr %error, null
  br i1 %found, label %known, label %unknown
known:
  %number = load i64, ptr %count
  %some = icmp sgt i64 %number, 1
  %threads = select i1 %some, i64 %number, i64 1
  ret i64 %threads
unknown:
  call void @forget(ptr %api, ptr %error)
  ret i64 1
}

define internal void @forget(ptr %api, ptr %error) {
  %request = alloca %ErrorDestroy
  store %ErrorDestroy { i64 24, ptr null, ptr null }, ptr %request
  %error.at = getelementptr %ErrorDestroy, ptr %request, i64 0, i32 2
  store ptr %error, ptr %error.at
  %function.at = getelementptr %Api, ptr %api, i64 0, i32 4, i64 2
  %function = load ptr, ptr %function.at
  call void %function(ptr %request)
  ret void
}

define internal ptr @fail(ptr %api, ptr %message, i32 %code) {
  %request = alloca %ErrorCreate
  store %ErrorCreate { i64 28, ptr null, ptr null, i32 0 }, ptr %request
  %message.at = getelementptr %ErrorCreate, ptr %request, i64 0, i32 2
  store ptr %message, ptr %message.at
  %code.at = getelementptr %ErrorCreate, ptr %request, i64 0, i32 3
  store i32 %code, ptr %code.at
  %function.at = getelementptr %Api, ptr %api, i64 0, i32 4, i64 0
  %function = load ptr, ptr %function.at
  %error = call ptr %function(ptr %request)
  ret ptr %error
}

; Runs the phases in order: with a team if some phase has several blocks, else on this thread.
define internal void @phases.run(ptr %api, ptr %context, ptr %buffers, ptr %scratch, i64 %threads) {
entry:
  %count = load i64, ptr @aiosearch.phase_count
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %most = phi i64 [ 0, %entry ], [ %most.next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %known
one:
  %i.next = add i64 %i, 1
  %blocks.at = getelementptr %Phase, ptr @aiosearch.phases, i64 %i, i32 1
  %blocks = load i64, ptr %blocks.at
  %larger = icmp ugt i64 %blocks, %most
  %most.next = select i1 %larger, i64 %blocks, i64 %most
  br label %next
known:
  %fewer = icmp ult i64 %most, %threads
  %workers = select i1 %fewer, i64 %most, i64 %threads
  %shared = icmp ugt i64 %workers, 1
  br i1 %shared, label %together, label %turn
together:
  %team = call ptr @gather(i64 %workers, ptr %buffers, ptr %scratch)
  %lacking = icmp eq ptr %team, null
  br i1 %lacking, label %turn, label %begin
begin:
  call void @lead(ptr %api, ptr %context, ptr %team)
  ret void
turn:
  %from = phi i64 [ 0, %known ], [ 0, %together ], [ %after, %alone ]
  %number = call i64 @nonempty_phase(i64 %from)
  %left = icmp ult i64 %number, %count
  br i1 %left, label %alone, label %done
alone:
  %after = add i64 %number, 1
  %phase = getelementptr %Phase, ptr @aiosearch.phases, i64 %number
  %own.at = getelementptr %Phase, ptr %phase, i64 0, i32 1
  %own.blocks = load i64, ptr %own.at
  %function = load ptr, ptr %phase
  call void %function(ptr %buffers, ptr %scratch, i64 0, i64 %own.blocks)
  br label %turn
done:
  ret void
}
