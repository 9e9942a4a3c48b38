"""What one z3 process answers, tested without the process."""

from __future__ import annotations

import threading
import time

import pytest

from aiosearch.checks.protocol import SolverRequest
from aiosearch.checks.session import memory_used, normalise
from aiosearch.checks.session_cache import SessionCache, Watchdog
from aiosearch.checks.verdict import Reason, Status

PROVED, REFUTED, UNKNOWN = Status
LIST = "(declare-datatypes ((L 0)) (({})))(declare-const a L)(declare-const b L)"
TWO_ENDS = LIST.format("(nil) (cons (hd Int))") + (
    "(assert (not ((_ is nil) a)))(assert (not ((_ is cons) a)))"
)
RECURSIVE = "(define-fun-rec f ((n Int)) Int (ite (<= n 0) 0 (+ {} (f (- n 1)))))"
PUZZLES = [
    ("(declare-const a Int)(assert (< a a))", PROVED),
    ("(declare-const a Int)(assert (< a 1))", REFUTED),
    ("(declare-const a Int)(assert (< a a))(assert (= q 1))", UNKNOWN),
    ("(declare-const a Real)(assert (> (* 2 a) 1.0))", REFUTED),
    ("(define-sort S () Int)(declare-const a S)(assert (not (= a (+ a 0))))", PROVED),
    ("(declare-sort S 0)(declare-const a S)(declare-const b S)(assert (not (= a b)))", REFUTED),
    ("(define-fun g ((x Int)) Int (+ x 1))(assert (not (= (g 1) 2)))", PROVED),
    ("(define-fun g ((x Int)) Int (+ x 2))(assert (not (= (g 1) 2)))", REFUTED),
    (TWO_ENDS, PROVED),
    (TWO_ENDS.replace("(hd Int))", "(hd Int)) (other)"), REFUTED),
    (LIST.format("(nil)") + "(assert (not (= a b)))", PROVED),
    (RECURSIVE.format(1) + "(assert (not (= (f 3) 3)))", PROVED),
    (RECURSIVE.format(2) + "(assert (not (= (f 3) 6)))", PROVED),
    ("(push)(declare-const a Int)(assert (< a a))", PROVED),
    ("(pop)(declare-const a Int)(assert (< a a))", UNKNOWN),
    ("(reset)(declare-const a Int)(assert (< a 1))", REFUTED),
    ("(set-logic QF_LIA)(declare-const a Int)(assert (< a a))", PROVED),
    ("(set-logic QF_BV)(declare-const a (_ BitVec 4))(assert (not (= a a)))", PROVED),
    ("(assert true) garbage", UNKNOWN),
    ("(assert", UNKNOWN),
    ("))", UNKNOWN),
    ("", REFUTED),
    ("(assert false)\0(assert true)", UNKNOWN),
    ("(declare-const a Int)(assert (! (> a 3) :named foo))", REFUTED),
    ("(declare-const é Int)(assert (> é 3))", UNKNOWN),
    ("(declare-const |é a| Int)(assert (> |é a| 3))", REFUTED),
]


@pytest.fixture(scope="module")
def bench() -> SessionCache:
    return SessionCache(10.0, 2048)


def ask(bench: SessionCache, query: str, axioms: int = 0, logic: str = "", rlimit: int = 400_000):
    return bench.answer(SolverRequest(query, axioms, logic, rlimit)).verdict


def test_questions_do_not_influence_each_other(bench):
    """Names declared anew, errors, datatypes and stray commands leave nothing behind."""
    for first, _ in PUZZLES:
        ask(bench, first)
        for query, status in PUZZLES:
            verdict = ask(bench, query)
            assert verdict.status is status, (first, query, verdict)


def test_axioms_are_shared_by_name_and_signature(bench):
    """A query that declares the axioms' symbols again speaks of the same symbols."""
    bench.learn(1, "(declare-sort T 0)(declare-fun f (T) T)(assert (forall ((x T)) (= (f x) x)))")
    query = "(declare-sort T 0)(declare-fun f (T) T)(declare-const a T)(assert (not (= (f a) a)))"
    assert ask(bench, query, axioms=1).status is PROVED
    assert ask(bench, query).status is REFUTED
    assert ask(bench, query.replace("f", "g"), axioms=1).status is UNKNOWN
    assert ask(bench, query, axioms=1, logic="UF").status is PROVED


def test_axioms_with_datatypes_work(bench):
    """Datatypes in axioms are parsed anew with each question, since z3 cannot forget them."""
    axioms = LIST.format("(nil) (cons (hd Int))") + "(assert ((_ is nil) a))"
    bench.learn(2, axioms)
    declared = LIST.format("(nil) (cons (hd Int))")
    for _ in range(2):
        assert ask(bench, declared + "(assert ((_ is cons) a))", axioms=2).status is PROVED
        assert ask(bench, declared + "(assert ((_ is cons) b))", axioms=2).status is REFUTED


def test_axioms_that_do_not_parse_are_named(bench):
    """The verdict says that the axioms are to blame, and where."""
    bench.learn(3, "(assert (f 1))")
    verdict = ask(bench, "(assert true)", axioms=3)
    assert verdict.reason.startswith("error: in the axioms: line 1 column ")


def test_an_error_is_located_in_the_query(bench):
    """Lines and columns are those of the text as it was written."""
    verdict = ask(bench, "(declare-const a Int)\n(assert (= a q))")
    assert verdict.reason == "error: line 2 column 13: unknown constant q"


def test_an_unknown_logic_is_an_error(bench):
    """z3's complaint is handed on."""
    assert ask(bench, "(assert true)", logic="FOO").reason.startswith("error: logic 'FOO'")


def test_the_resource_limit_is_exact(bench, goals):
    """The same budget gives the same answer, and the verdict tells what it was."""
    query = goals.endless().query
    for rlimit in (20_000, 1000, 20_000):
        verdict = ask(bench, query, rlimit=rlimit)
        assert verdict.status is UNKNOWN
        # z3 4.13 calls a goal incomplete when the limit cuts its arithmetic short.
        assert verdict.reason in (Reason.RESOURCE_LIMIT, Reason.INCOMPLETE)
        assert verdict.rlimit == rlimit
    assert ask(bench, "(declare-const a Int)(assert (< a a))").rlimit == 0


def test_quantified_goals_that_fail_are_incomplete(bench, goals):
    """z3 builds no models for quantifiers: it gives up at once."""
    bench.learn(4, goals.axioms["ring"])
    verdict = ask(bench, goals.incomplete().query, axioms=4, rlimit=4_000_000_000)
    assert (verdict.status, verdict.reason) == (UNKNOWN, Reason.INCOMPLETE)
    assert verdict.seconds < 1.0


def test_bit_vectors_are_decided(bench):
    """QF_BV goals are proved and refuted by the specialised solver."""
    goal = "(declare-const a (_ BitVec 8))(assert (not (= (bvadd a a) (bvshl a #x0{}))))"
    assert ask(bench, goal.format(1), logic="QF_BV").status is PROVED
    assert ask(bench, goal.format(2), logic="QF_BV").status is REFUTED


def test_memory_stays_flat(bench, goals):
    """Thousands of questions with names of their own leave z3's memory where it was."""
    bench.learn(5, goals.axioms["ring"])
    for number in range(6000):
        verdict = ask(bench, goals.proved(number).query, axioms=5)
        assert verdict.status is PROVED
        if number == 2000:
            before = memory_used()
    assert memory_used() < before + (8 << 20)


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("max. resource limit exceeded", Reason.RESOURCE_LIMIT),
        ("canceled", Reason.RESOURCE_LIMIT),
        ("push canceled", Reason.RESOURCE_LIMIT),
        ("(incomplete quantifiers)", Reason.INCOMPLETE),
        ("smt tactic failed (incomplete (theory arithmetic))", Reason.INCOMPLETE),
        ("out of memory", Reason.MEMORY_LIMIT),
        ("max. memory exceeded", Reason.MEMORY_LIMIT),
        ("smt tactic failed to show goal to be sat/unsat memout", Reason.MEMORY_LIMIT),
        ("something new", Reason.INCOMPLETE),
    ],
)
def test_reasons_are_normalised(why, reason):
    """z3's many ways to say that it gives up become few."""
    assert normalise(why) is reason


def test_what_takes_too_long_is_interrupted():
    """The interrupt comes once the time is over, and can be told afterwards."""
    stop = threading.Event()
    dog = Watchdog(0.05)
    start = time.monotonic()
    with dog.awake(), dog.watch(stop.set):
        assert stop.wait(10)
    assert dog.fired
    assert time.monotonic() - start >= 0.05


def test_what_is_quick_is_left_alone():
    """Neither the quick one nor what follows it is interrupted."""
    dog = Watchdog(0.02)
    called = threading.Event()
    with dog.awake():
        with dog.watch(called.set):
            pass
        assert not called.wait(0.1)
    assert not dog.fired
