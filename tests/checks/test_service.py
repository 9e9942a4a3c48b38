from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time

import pytest
import uvloop

from aiosearch.checks import Reason, Status, Ticket, Verdict, Verifier
from aiosearch.errors import AiosearchError, WorkerError
from aiosearch.problem import Obligation
from aiosearch.processes.child import Child


@pytest.fixture
def verifier(goals):
    return Verifier(cache=None, axioms=goals.axioms)


class Answers:
    """Collects what is called back, and in which order."""

    def __init__(self, expected: int) -> None:
        self.verdicts: dict[object, Verdict] = {}
        self.all = asyncio.Event()
        self._expected = expected

    def to(self, name: object):
        def done(verdict: Verdict) -> None:
            self.verdicts[name] = verdict
            if len(self.verdicts) == self._expected:
                self.all.set()

        return done


def ask(verifier, goals, obligation, done=lambda verdict: None, priority=0.0):
    axioms = goals.axioms.get(obligation.axioms, "")
    return verifier.ask(goals.digest(obligation), obligation, done, axioms, priority)


async def test_verdicts(verifier, goals):
    """unsat is proved, sat is refuted, and what z3 cannot tell is unknown with a reason."""
    async with verifier:
        assert (await verifier.check(goals.proved())).status is Status.PROVED
        assert (await verifier.check(goals.refuted())).status is Status.REFUTED
        verdict = await verifier.check(goals.incomplete())
        assert (verdict.status, verdict.reason) == (Status.UNKNOWN, Reason.INCOMPLETE)
        assert (await verifier.check(Obligation("", logic="QF_BV"))).status is Status.REFUTED
    statistics = verifier.statistics()
    assert statistics.checks == 4
    assert (statistics.proved, statistics.refuted, statistics.unknown) == (1, 2, 1)
    assert statistics.cpu_seconds > 0


async def test_no_process_without_a_question(verifier):
    """Opening and closing the service starts nothing."""
    async with verifier:
        assert verifier.pids == ()


async def test_a_known_answer_comes_at_once(verifier, goals):
    """The second time, `ask` itself gives the verdict and calls nobody."""
    async with verifier:
        first = await verifier.check(goals.proved())
        assert ask(verifier, goals, goals.proved()) is first
    assert verifier.statistics().memory_hits == 1


async def test_a_larger_budget_asks_again(verifier, goals):
    """An unknown serves budgets up to its own; a larger one may find more."""
    async with verifier:
        small = await verifier.check(goals.endless(2000))
        assert (small.status, small.rlimit) == (Status.UNKNOWN, 2000)
        assert await verifier.check(goals.endless(1000)) is small
        large = await verifier.check(goals.endless(4000))
        assert large.rlimit == 4000
        assert verifier.statistics().checks == 2


async def test_two_askers_share_one_check(verifier, goals):
    """Whoever asks what is being asked waits for the same answer."""
    async with verifier:
        verdicts = await asyncio.gather(*(verifier.check(goals.proved()) for _ in range(3)))
    assert verdicts[0] is verdicts[1] is verdicts[2]
    statistics = verifier.statistics()
    assert (statistics.checks, statistics.joined) == (1, 2)


async def test_an_asker_that_allows_more_is_not_put_off(verifier, goals, until):
    """One that joins a running check and has a larger budget gets a check of its own."""
    async with verifier:
        await verifier.check(goals.refuted())
        small = asyncio.ensure_future(verifier.check(goals.endless(400_000)))
        await until(lambda: verifier.statistics().in_flight)
        large = asyncio.ensure_future(verifier.check(goals.endless(500_000)))
        assert (await small).rlimit == 400_000
        assert (await large).rlimit == 500_000
        assert verifier.statistics().joined == 1


async def test_a_queued_question_takes_the_largest_budget(verifier, goals):
    """Those that wait for a question that was not sent yet all get its best answer."""
    async with verifier:
        budgets = (1000, 3000, 2000)
        verdicts = await asyncio.gather(*(verifier.check(goals.endless(b)) for b in budgets))
    assert {verdict.rlimit for verdict in verdicts} == {3000}
    assert verifier.statistics().checks == 1


async def test_a_dropped_question_is_not_asked(verifier, goals):
    """When its last asker takes its claim back, a queued question is forgotten."""
    async with verifier:
        answers = Answers(2)
        ask(verifier, goals, goals.proved(1), answers.to("kept"))
        both = [ask(verifier, goals, goals.proved(2), answers.to(name)) for name in "ab"]
        lost = ask(verifier, goals, goals.proved(3), answers.to("lost"))
        verifier.drop(both[0])
        verifier.drop(lost)
        verifier.drop(lost)
        assert verifier.statistics().queued == 2
        await answers.all.wait()
        assert set(answers.verdicts) == {"kept", "b"}
    assert verifier.statistics().checks == 2


async def test_a_dropped_question_can_be_asked_again(verifier, goals):
    """Forgetting is not an answer."""
    async with verifier:
        verifier.drop(ask(verifier, goals, goals.proved()))
        assert (await verifier.check(goals.proved())).status is Status.PROVED


async def test_a_cancelled_check_is_dropped(verifier, goals, until):
    """Cancelling the awaiting task takes the question out of the queue."""
    async with verifier:
        task = asyncio.ensure_future(verifier.check(goals.proved()))
        await until(lambda: verifier.statistics().queued)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert verifier.statistics().queued == 0


async def test_the_lowest_priority_is_asked_first(verifier, goals):
    """Questions are ordered by priority, equal ones by age; a later asker may raise one."""
    async with verifier:
        answers = Answers(4)
        for number, priority in enumerate((3.0, 1.0, 2.0, 1.0)):
            ask(verifier, goals, goals.proved(number), answers.to(number), priority)
        ask(verifier, goals, goals.proved(2), priority=0.0)
        await answers.all.wait()
    assert list(answers.verdicts) == [2, 1, 3, 0]


async def test_a_failing_asker_harms_nobody(verifier, goals):
    """An exception in a callback reaches the loop's handler; the others get their answer."""
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))

    def fail(verdict):
        raise ZeroDivisionError

    async with verifier:
        ask(verifier, goals, goals.proved(), fail)
        assert (await verifier.check(goals.proved())).status is Status.PROVED
    assert isinstance(heard[0]["exception"], ZeroDivisionError)


async def test_an_asker_may_ask_and_drop(verifier, goals):
    """A callback may put the next question and withdraw another's claim."""
    async with verifier:
        answers = Answers(2)
        tickets = []

        def first(verdict):
            answers.to("first")(verdict)
            verifier.drop(tickets[0])
            ask(verifier, goals, goals.proved(2), answers.to("next"))

        ask(verifier, goals, goals.proved(1), first)
        tickets.append(ask(verifier, goals, goals.proved(1), answers.to("dropped")))
        await answers.all.wait()
    assert set(answers.verdicts) == {"first", "next"}


async def test_axiom_sets_with_one_name_do_not_mix(verifier, goals):
    """What counts is the axioms' text: two problems may call theirs the same."""
    obligation = Obligation("(declare-fun f () Bool)(assert f)", axioms="same")
    texts = ["(declare-fun f () Bool)(assert (not f))", "(declare-fun f () Bool)(assert f)"]
    verdicts = []
    for text in texts:
        async with Verifier(cache=None, axioms={"same": text}) as verifier:
            verdicts.append((await verifier.check(obligation)).status)
    assert verdicts == [Status.PROVED, Status.REFUTED]
    async with Verifier(cache=None) as verifier:
        answers = Answers(2)
        for text in texts:
            verifier.ask(text.encode(), obligation, answers.to(text), text)
        await answers.all.wait()
    assert [answers.verdicts[text].status for text in texts] == [Status.PROVED, Status.REFUTED]


async def test_an_unknown_axiom_set_is_named(verifier):
    """A misspelled name is an error that lists the names there are."""
    async with verifier:
        with pytest.raises(AiosearchError, match="'rung'; there are: ring"):
            await verifier.check(Obligation("", axioms="rung"))


async def test_a_query_that_does_not_parse(verifier, goals):
    """It is unknown with the parser's message, and the process goes on."""
    async with verifier:
        verdict = await verifier.check(Obligation("(assert (= x 1))"))
        assert verdict.status is Status.UNKNOWN
        assert verdict.reason == "error: line 1 column 12: unknown constant x"
        pids = verifier.pids
        await verifier.check(goals.proved())
        assert verifier.pids == pids


async def test_a_killed_check_is_tried_once_more(verifier, goals, until):
    """The question moves to a new process; one that also dies is blamed on the question."""
    async with verifier:
        await verifier.check(goals.refuted())
        first = verifier.pids
        task = asyncio.ensure_future(verifier.check(goals.endless()))
        await until(lambda: verifier.statistics().in_flight)
        os.kill(first[0], signal.SIGKILL)
        await until(lambda: verifier.pids != first and verifier.statistics().in_flight)
        os.kill(verifier.pids[0], signal.SIGKILL)
        verdict = await task
        assert (verdict.status, verdict.reason) == (Status.UNKNOWN, Reason.CRASH)
        assert (await verifier.check(goals.proved())).status is Status.PROVED
        statistics = verifier.statistics()
    assert (statistics.restarts, statistics.checks, statistics.unknown) == (2, 2, 1)


async def test_a_process_that_dies_between_questions_is_replaced(verifier, goals, until):
    """Nothing is lost when no question was on its way."""
    async with verifier:
        await verifier.check(goals.proved(1))
        os.kill(verifier.pids[0], signal.SIGKILL)
        assert (await verifier.check(goals.proved(2))).status is Status.PROVED


async def test_a_hanging_process_is_killed_at_the_deadline(goals, until):
    """A process that answers nothing at all is replaced, and its question answered after all."""
    async with Verifier(cache=None, seconds=0.1) as verifier:
        await verifier.check(goals.refuted(1))
        hanging = verifier.pids[0]
        os.kill(hanging, signal.SIGSTOP)
        start = time.monotonic()
        assert (await verifier.check(goals.refuted(2))).status is Status.REFUTED
        assert time.monotonic() - start >= 0.6
        assert hanging not in verifier.pids
    assert verifier.statistics().restarts == 1


async def test_the_time_limit_ends_a_check(goals):
    """A hard goal with a huge budget ends at the time limit, without costing the process."""
    async with Verifier(cache=None, seconds=0.2) as verifier:
        await verifier.check(goals.refuted())
        pids = verifier.pids
        verdict = await verifier.check(goals.endless())
        assert (verdict.status, verdict.reason) == (Status.UNKNOWN, Reason.TIME_LIMIT)
        assert verifier.pids == pids
        assert (await verifier.check(goals.refuted(1))).status is Status.REFUTED


async def test_a_question_that_eats_memory(goals):
    """It is unknown after two processes have refused it; others are answered."""
    wide = "(_ BitVec 2048)"
    hog = Obligation(
        f"(declare-const x {wide})(declare-const y {wide})"
        "(assert (= (bvmul x y) (bvadd (bvmul x x y) y)))",
        logic="QF_BV",
        rlimit=4_000_000_000,
    )
    async with Verifier(cache=None, seconds=10.0, memory_mb=64) as verifier:
        verdict = await verifier.check(hog)
        assert (verdict.status, verdict.reason) == (Status.UNKNOWN, Reason.MEMORY_LIMIT)
        assert (await verifier.check(goals.refuted())).status is Status.REFUTED
    assert verifier.statistics().restarts == 2


async def test_a_process_may_say_that_it_is_ready_before_its_start_has_returned(
    verifier, goals, until, monkeypatch
):
    """It is asked once there is a way to it, and no question is lost on one that is not there."""
    spawn, spawned = Child.spawn, []

    async def spawned_late(*arguments, **options):
        spawned.append(await spawn(*arguments, **options))
        await until(lambda: spawned[-1].received)
        ask(verifier, goals, goals.proved(2), answers.to("while it starts"))
        return spawned[-1]

    monkeypatch.setattr(Child, "spawn", spawned_late)
    async with verifier, asyncio.timeout(20):
        answers = Answers(2)
        ask(verifier, goals, goals.proved(1), answers.to("before"))
        await answers.all.wait()
    assert {verdict.status for verdict in answers.verdicts.values()} == {Status.PROVED}
    assert len(spawned) == 1


async def test_several_processes_work_at_once(goals, until):
    """Two long questions do not wait for each other, and no process is started in vain."""
    async with Verifier(3, cache=None, seconds=20.0) as verifier:
        for key in (b"one", b"two"):
            ask(verifier, goals, goals.endless(key=key))
        await until(lambda: verifier.statistics().in_flight == 2)
        assert len(verifier.pids) == 2
        assert verifier.statistics().queued == 0


async def test_warmed_up_every_process_is_there_before_the_first_question(goals):
    """What follows pays for no start; a process that cannot load z3 is not waited for."""
    async with Verifier(3, cache=None, axioms=goals.axioms) as verifier:
        await verifier.warm_up()
        pids = verifier.pids
        assert len(pids) == 3
        await verifier.check(goals.proved())
        assert verifier.pids == pids


async def test_waiting_for_a_process_is_counted(goals):
    """Of two questions to one process, the second waits for the first."""
    async with Verifier(cache=None, axioms=goals.axioms) as verifier:
        await verifier.warm_up()
        await verifier.check(goals.proved(1))
        alone = verifier.statistics().queue_seconds
        await asyncio.gather(*(verifier.check(goals.proved(number)) for number in range(2, 30)))
        assert verifier.statistics().queue_seconds > alone >= 0


async def test_a_trace_of_the_checks(goals):
    """`on_check` hears who answered what, and when."""
    records = []
    async with Verifier(cache=None, axioms=goals.axioms, on_check=records.append) as verifier:
        await asyncio.gather(*(verifier.check(goals.proved(number)) for number in range(20)))
    assert len(records) == 20
    assert {(record.process, record.status) for record in records} == {(0, Status.PROVED)}
    for one, two in itertools.pairwise(records):
        assert one.start < one.end <= two.start + 0.001


async def test_nobody_is_called_back_after_close(verifier, goals):
    """Closing waits for no answer, ends every process, and a waiting `check` is told."""
    async with verifier:
        await verifier.check(goals.refuted())
        answers = Answers(1)
        ticket = ask(verifier, goals, goals.endless(), answers.to("never"))
        assert isinstance(ticket, Ticket)
        waiting = asyncio.ensure_future(verifier.check(goals.proved()))
        await asyncio.sleep(0)
        (pid,) = verifier.pids
    with pytest.raises(WorkerError, match="closed"):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not answers.verdicts
    with pytest.raises(RuntimeError):
        await verifier.check(goals.refuted())
    await verifier.close()


async def test_closing_while_a_process_starts(verifier, goals):
    """A process that is on its way up is caught as well."""
    async with verifier:
        ask(verifier, goals, goals.proved())


async def test_a_service_is_used_inside_its_block(verifier, goals):
    """Asking before it is opened, and opening it twice, are mistakes that are told."""
    with pytest.raises(RuntimeError, match="async with"):
        await verifier.check(goals.proved())
    async with verifier:
        with pytest.raises(RuntimeError, match="once"):
            await verifier.__aenter__()


@pytest.mark.parametrize("wrong", ["processes", "rlimit", "seconds", "memory_mb"])
def test_limits_must_be_positive(wrong):
    """A service without a process, budget, time or memory is refused."""
    with pytest.raises(ValueError, match="above zero"):
        Verifier(**{wrong: 0})


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("raise ImportError('no libz3')", "ImportError: no libz3"),
        ("import os; os._exit(3)", "the processes die while they load it"),
    ],
)
async def test_z3_that_cannot_be_loaded(module, message, goals, tmp_path, monkeypatch):
    """It is told once, with what the process said, and no process is started any more."""
    (tmp_path / "z3.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    heard = []
    async with Verifier(cache=None, on_failure=heard.append) as verifier:
        with pytest.raises(WorkerError, match=message):
            await verifier.check(goals.refuted(1))
        with pytest.raises(WorkerError, match=message):
            await verifier.check(goals.refuted(2))
        assert verifier.pids == ()
    assert [type(error) for error in heard] == [WorkerError]


async def test_a_failure_of_our_own_is_told_and_nobody_waits_for_ever(goals, monkeypatch):
    """Whatever is raised where a process starts."""

    async def broken(*arguments, **options):
        raise ZeroDivisionError("of our own")

    monkeypatch.setattr(Child, "spawn", broken)
    async with asyncio.timeout(20), Verifier(cache=None) as verifier:
        with pytest.raises(WorkerError, match="the engine failed: ZeroDivisionError: of our own"):
            await verifier.check(goals.refuted(1))


@pytest.fixture(scope="module")
def uv():
    """libuv keeps a pipe of the whole process's from its first loop on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop()
    return uvloop.new_event_loop


def test_it_works_on_uvloop(uv, goals):
    """The service needs nothing that uvloop lacks."""

    async def main():
        async with Verifier(cache=None, axioms=goals.axioms) as verifier:
            return await verifier.check(goals.proved())

    with asyncio.Runner(loop_factory=uv) as runner:
        assert runner.run(main()).status is Status.PROVED
