"""The threads that run a call: whenever they come, every block is run once and in its phase."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import llvmlite.binding as llvm
import numpy as np
import pytest
from testkit.kernels.fake_xla import FakeXla
from testkit.kernels.llvm_texts import looping, relayed, relaying, reversing

from aiosearch.codegen.ir import Buffer
from aiosearch.codegen.native import compiler, handler
from aiosearch.codegen.native.compiler import LoadedLibrary, compile_handler, compile_program, load
from aiosearch.codegen.native.kernel_program import KernelPhase, KernelProgram
from aiosearch.codegen.native.machine import host
from aiosearch.tensor.types import DType

SIZE = 300
BLOCKS = (0, 300, 1, 0, 1, 299, 7, 1, 300, 0)
Run = Callable[[], None]


@pytest.fixture(scope="module")
def relay() -> LoadedLibrary:
    return loaded(relaying(SIZE, BLOCKS))


def loaded(native: KernelProgram) -> LoadedLibrary:
    return load(native, compile_program(native, host()), compile_handler(host()))


def run(
    library: LoadedLibrary, xla: FakeXla, blocks: tuple[int, ...] = BLOCKS, size: int = SIZE
) -> None:
    """Calls it, and compares what it gives."""
    values = np.arange(size, dtype=np.int32)
    outputs = [np.full_like(values, -1), np.full_like(values, -1)]
    assert xla.call(library.handler, [values], outputs) is None
    assert [one.tolist() for one in outputs] == [*relayed(values.tolist(), blocks)]
    assert not xla.errors


def at_once(task: Run) -> bool:
    task()
    return True


def refused(task: Run) -> bool:
    return False


def never(task: Run) -> bool:
    return True


@pytest.mark.parametrize(("begin", "asked"), [(at_once, 3), (never, 3), (refused, 1)])
def test_no_other_thread(begin: Callable[[Run], bool], asked: int, relay: LoadedLibrary) -> None:
    """A task may run before the one that asked goes on, or not at all, or be refused."""
    xla = FakeXla(4, begin)
    run(relay, xla)
    assert xla.asked == asked


def test_one_thread(relay: LoadedLibrary) -> None:
    """Nobody is asked for more."""
    xla = FakeXla(1, refused)
    run(relay, xla)
    assert not xla.asked


@pytest.mark.parametrize("blocks", [(), (1,), (1, 0, 1), (0, 0)])
def test_one_block_at_most(blocks: tuple[int, ...]) -> None:
    """Phases of one block, and empty ones, need no other thread."""
    xla = FakeXla(4, refused)
    run(loaded(relaying(1, blocks)), xla, blocks, 1)
    assert not xla.asked


def test_tasks_that_are_late(relay: LoadedLibrary) -> None:
    """What comes when all is done finds nothing to do, and the arrays are left alone."""
    tasks: list[Run] = []

    def later(task: Run) -> bool:
        tasks.append(task)
        return True

    for _ in range(50):
        run(relay, FakeXla(3, later))
        for task in tasks:
            task()
        tasks.clear()


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_that_come_at_some_time(threads: int, relay: LoadedLibrary) -> None:
    """While it runs or later; more of them than processors, so that some sleep."""
    begun: list[threading.Thread] = []

    def soon(task: Run) -> bool:
        begun.append(threading.Thread(target=task))
        begun[-1].start()
        return True

    for _ in range(100):
        run(relay, FakeXla(threads, soon))
    for one in begun:
        one.join()


def test_threads_share_the_blocks_and_sleep_until_there_are_more() -> None:
    """Of two phases that take long, both threads run some; one waits for what is between."""
    native = meeting()
    library, here = loaded(native), np.zeros(4, np.int32)
    begun: list[threading.Thread] = []

    def soon(task: Run) -> bool:
        begun.append(threading.Thread(target=task))
        begun[-1].start()
        return True

    assert FakeXla(2, soon).call(library.handler, [], [here]) is None
    begun[0].join()
    assert here.tolist() == [2, 2, 1, 2]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    """A handler whose threads wait long enough for a test to see them wait."""
    monkeypatch.setattr(handler, "_SPIN_COUNT", 2_000_000_000)
    handler.handler_text.cache_clear()
    slots()[1::8] = 0  # what earlier tests have waited in vain
    yield compile_handler.__wrapped__(host())
    handler.handler_text.cache_clear()


def slots() -> np.ndarray:
    """The words of all seats, a cache line each: its state, and its waits in vain."""
    words = ctypes.c_uint64 * (handler.WAITING_SLOTS * 8)
    return np.ctypeslib.as_array(words.from_address(compiler._allocate_waiting_slots()))


def seats() -> list[int]:
    return [int(state) for state in slots()[::8]]


def test_a_seat_counts_what_waited_in_vain_and_forgets_it_when_a_team_comes(
    relay: LoadedLibrary, patient: bytes
) -> None:
    """Tasks that run on the thread that asks wait for a call that nobody can make meanwhile."""
    run(relay, FakeXla(4, at_once))
    assert slots()[1] == 3
    run(relay, FakeXla(3, at_once))
    assert slots()[1] == 5
    slots()[1] = 0  # its next wait is a long one
    second = meeting()
    library = load(second, compile_program(second, host()), patient)
    waiting = load(relaying(SIZE, BLOCKS), compile_program(relaying(SIZE, BLOCKS), host()), patient)
    begun: list[threading.Thread] = []

    def soon(task: Run) -> bool:
        begun.append(threading.Thread(target=task))
        begun[-1].start()
        return True

    run(waiting, FakeXla(2, soon))
    while 1 not in seats():
        assert begun[0].is_alive()
    slots()[1] = 2  # who waits has read it already
    here = np.zeros(4, np.int32)
    assert FakeXla(2, soon).call(library.handler, [], [here]) is None
    begun[0].join()
    assert slots()[1] == 1, "none when the call came, and one since"


def test_a_thread_that_waits_joins_the_next_call_of_another_kernel(patient: bytes) -> None:
    """XLA is not asked; both blocks of a phase end only if there are two threads."""
    first, second = relaying(SIZE, BLOCKS), meeting()
    libraries = [load(one, compile_program(one, host()), patient) for one in (first, second)]
    begun: list[threading.Thread] = []

    def soon(task: Run) -> bool:
        begun.append(threading.Thread(target=task))
        begun[-1].start()
        return True

    run(libraries[0], FakeXla(2, soon))
    while 1 not in seats():
        assert begun[0].is_alive()
    here = np.zeros(4, np.int32)
    xla = FakeXla(2, soon)
    assert xla.call(libraries[1].handler, [], [here]) is None
    assert here.tolist() == [2, 2, 1, 2]
    assert not xla.asked
    begun[0].join()
    assert not any(seats())


def test_calls_at_the_same_time_share_the_threads_that_wait(relay: LoadedLibrary) -> None:
    """Of two kernels, from several threads, while others come, wait and leave."""
    other = loaded(relaying(SIZE, BLOCKS[::-1]))
    begun: list[threading.Thread] = []

    def soon(task: Run) -> bool:
        begun.append(threading.Thread(target=task))
        begun[-1].start()
        return True

    def calls() -> None:
        for _ in range(100):
            run(relay, FakeXla(3, soon))
            run(other, FakeXla(2, soon), BLOCKS[::-1])

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(calls) for _ in range(3)]:
            done.result()
    for one in begun:
        one.join()
    assert not any(seats())


def meeting() -> KernelProgram:
    """Blocks that end when both blocks of their phase have begun; between, one that takes long."""
    texts = ["declare i32 @usleep(i32)"]
    for phase, place in ((0, 0), (2, 1), (5, 3)):
        texts.append(_until_both(f"meeting.{phase}", place))
    for phase, place in ((1, 2), (3, 2), (4, 2)):
        lines = [f"%p = getelementptr i32, ptr %o, i64 {place}", "store i32 1, ptr %p"]
        lines += ["%slept = call i32 @usleep(i32 20000)"] * (phase == 1)
        texts.append(looping(f"meeting.{phase}", "o", lines))
    phases = tuple(map(KernelPhase, (2, 1, 2, 1, 1, 2)))
    output = Buffer("o", DType.I32, (4,))
    return KernelProgram("meeting", "\n".join(texts), (), (output,), phases)


def _until_both(symbol: str, place: int) -> str:
    """A block that counts itself, and goes on when there are two."""
    return f"""
define void @{symbol}(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{
entry:
  %o = load ptr, ptr %buffers
  %p = getelementptr i32, ptr %o, i64 {place}
  %0 = atomicrmw add ptr %p, i32 1 acq_rel
  br label %look
look:
  %now = load atomic i32, ptr %p acquire, align 4
  %both = icmp eq i32 %now, 2
  br i1 %both, label %over, label %look
over:
  ret void
}}
"""


def spare() -> int:
    """How many bytes the piece has that is kept for the next call."""
    at = compiler._allocate_waiting_slots() + handler.WAITING_SLOTS * handler.CACHE_LINE_BYTES
    piece = ctypes.c_void_p.from_address(at).value
    return 0 if piece is None else ctypes.c_int64.from_address(piece).value


def reversing_whole(size: int) -> KernelProgram:
    """The same on whole numbers, which is what is called here with."""
    text = reversing(size).text.replace("fadd", "add").replace("float", "i32")
    buffers = [(Buffer(each, DType.I32, (size,)),) for each in "ao"]
    return KernelProgram(
        "reversing", text, *buffers, (KernelPhase(size), KernelPhase(size)), (4 * size,)
    )


def test_kernels_share_the_memory_that_they_need_beside_their_arrays() -> None:
    """XLA lets go of none, so a piece for each would be there for ever."""
    sizes = (1000, 100_000)
    libraries = {size: loaded(reversing_whole(size)) for size in sizes}
    pieces = []
    for size in 2 * sizes:
        given, found = np.arange(size, dtype=np.int32), np.zeros(size, np.int32)
        assert FakeXla(1, refused).call(libraries[size].handler, [given], [found]) is None
        assert (found == 2 * given[::-1]).all()
        pieces.append(spare())
    assert pieces[1] == pieces[2] == pieces[3] >= 400_000


LEAVING = """
define i64 @core_after_leaving(i64 %core) {
  call void @leave(i64 %core)
  %after = call i64 @core()
  ret i64 %after
}
"""
"""Says where a thread is as soon as it has left a core."""


@pytest.fixture(scope="module")
def core_after_leaving() -> Callable[[int], int]:
    text = resources.files(handler.__package__) / "cores.ll"
    context = llvm.create_context()
    module = compiler.parse_module(text.read_text() + LEAVING, context)
    code = compiler.target_machine(host()).emit_object(module)
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(code).add_current_process().export_symbol("core_after_leaving")
    library = builder.link(llvm.create_lljit_compiler(), "cores")
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    # What is called has the library, which is unloaded with its last reference.
    return lambda core: int(kind(library["core_after_leaving"])(core))


@pytest.mark.skipif(sys.platform != "linux", reason="threads know their cores on Linux")
def test_a_thread_leaves_the_core_of_another_and_may_come_back(
    core_after_leaving: Callable[[int], int],
) -> None:
    """It is on another core at once, where it may be on another, and may run everywhere again."""

    def left() -> tuple[int, set[int]]:
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, cores)
        return core_after_leaving(core), os.sched_getaffinity(0)

    cores = os.sched_getaffinity(0)
    core = min(cores)
    with ThreadPoolExecutor(1) as pool:
        after, allowed = pool.submit(left).result()
    assert (after == core) == (len(cores) == 1)
    assert allowed == cores


@pytest.mark.skipif(sys.platform != "linux", reason="threads know their cores on Linux")
def test_a_thread_that_may_run_on_one_core_alone_stays_there(
    core_after_leaving: Callable[[int], int],
) -> None:
    def left() -> tuple[int, set[int]]:
        os.sched_setaffinity(0, {core})
        return core_after_leaving(core), os.sched_getaffinity(0)

    core = max(os.sched_getaffinity(0))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(left).result() == (core, {core})
