from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from aiosearch.checks.questions import canonical, digest, z3_version
from aiosearch.errors import WorkerError
from aiosearch.problem import Obligation

QUERY = "(declare-const x Int) (assert (< x x))"


def test_layout_and_comments_do_not_matter():
    """Two spellings of one query have one digest."""
    spelled = Obligation("; less\n(declare-const   x Int)\n\t(assert (< x x)) ; never\n")
    assert digest(spelled, "", "5") == digest(Obligation(QUERY), "", "5")


def test_budget_and_axiom_name_do_not_matter():
    """The same text is the same question, whatever its axioms are called and it may spend."""
    named = Obligation(QUERY, axioms="mine", rlimit=5)
    assert digest(named, "(assert true)", "5") == digest(Obligation(QUERY), "(assert true)", "5")


def test_everything_that_changes_the_answer_matters():
    """Query, key, axioms' text, logic and z3's version each change the digest."""
    digests = {
        digest(Obligation(QUERY), "", "5"),
        digest(Obligation(QUERY + "(assert true)"), "", "5"),
        digest(Obligation(QUERY, key=b"key"), "", "5"),
        digest(Obligation(QUERY, logic="QF_LIA"), "", "5"),
        digest(Obligation(QUERY), "(assert true)", "5"),
        digest(Obligation(QUERY), "", "6"),
        digest(Obligation("", key=QUERY.encode()), "", "5"),
    }
    assert len(digests) == 7
    assert {len(value) for value in digests} == {16}


def test_neighbouring_parts_cannot_be_confused():
    """Text that moves from one part to the next makes another digest."""
    assert digest(Obligation(QUERY, logic="b"), "a", "5") != digest(
        Obligation(QUERY, logic=""), "ab", "5"
    )


def test_the_authors_key_replaces_the_query():
    """Equal keys mean equivalent questions, so the text is not looked at."""
    assert digest(Obligation("a", key=b"k"), "", "5") == digest(Obligation("b", key=b"k"), "", "5")


@pytest.mark.parametrize("mark", ['"', "|"])
def test_spaces_and_semicolons_in_quotes_are_kept(mark):
    """Queries that differ inside string literals or quoted symbols stay apart."""
    one, two = (f"(assert (= s {mark}a{gap}b;{mark}))" for gap in (" ", "  "))
    assert canonical(one) != canonical(two)
    assert canonical(one).endswith(b"))")


def test_without_z3_there_is_a_sentence(monkeypatch):
    """A missing z3 is a WorkerError that says what to install."""

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    z3_version.cache_clear()
    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(WorkerError, match="pip install z3-solver"):
        z3_version()
    z3_version.cache_clear()


def test_importing_the_service_loads_neither_z3_nor_sqlite():
    """Search workers and the host import it, and pay for neither."""
    code = (
        "import sys, aiosearch.checks; aiosearch.checks.z3_version();"
        "sys.exit(', '.join({'z3', 'sqlite3', 'jax'} & set(sys.modules)) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
