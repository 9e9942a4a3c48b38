"""A program in two: what is made once of its constant inputs, and what is left for each call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from ..tensor import Program, Term, tensor, walk
from ..tensor.rebuild import substituted
from ..tensor.terms import INPUT
from .algebra.building import rank_swap, swapped
from .algebra.settled import settled

_FREE = ("broadcast", "reshape")
"""What costs a call nothing, or less than to read what comes of it."""


@dataclass(frozen=True)
class Packing:
    """The two parts, and which of the program's inputs the first one takes."""

    how: str
    """In words."""
    positions: tuple[int, ...]
    pack: Program
    """Takes these inputs, and gives arrays."""
    run: Program
    """Takes the other inputs, then those arrays."""


def packings(program: Program, constant: tuple[int, ...]) -> list[Packing]:
    """The ways to part it, each once; none where nothing can be made beforehand.

    The operands of products lie as the products read them, or turned around.
    """
    found: dict[Program, Packing] = {}
    for how, turned in (("beforehand", False), ("turned beforehand", True)):
        ready = settled(program, constant)
        stored = {
            term: form
            for term, form in _stored(program, ready, turned)
            if form.operator is not INPUT and term not in program.outputs
        }
        if stored:
            one = _parted(program, constant, how, stored)
            found.setdefault(one.run, one)
    return list(found.values())


def _stored(program: Program, ready: frozenset[Term], turned: bool) -> Iterator[tuple[Term, Term]]:
    """Each settled term that an unsettled one takes, and as what it is kept."""
    for user in program.terms():
        if user in ready:
            continue
        for term in user.arguments:
            if term not in ready:
                continue
            if turned and user.operator.name == "matmul":
                yield term, rank_swap(term) or swapped(term)
            else:
                yield _core(term, ready), _core(term, ready)


def _core(term: Term, ready: frozenset[Term]) -> Term:
    while term.operator.name in _FREE and term.arguments[0] in ready:
        term = term.arguments[0]
    return term


def _parted(
    program: Program, constant: tuple[int, ...], how: str, stored: dict[Term, Term]
) -> Packing:
    needed = _inputs(stored.values())
    positions = tuple(at for at in constant if program.inputs[at] in needed)
    given = [program.inputs[at] for at in positions]
    others = [term for term in program.inputs if term not in given]
    names = _fresh_names(program, given)
    kept: dict[Term, Term] = {}
    changes: dict[Term, Term] = {}
    for term, form in stored.items():
        if form not in kept:
            kept[form] = tensor(next(names), form.dtype, form.shape)
        changes[term] = kept[form] if form is term else swapped(kept[form])
    left = _inputs(_changed(program, kept.values(), changes))
    for term in given:
        if term in left:  # a call reads it as it is, too
            changes[term] = kept[term] = tensor(next(names), term.dtype, term.shape)
    outputs = _changed(program, kept.values(), changes)
    return Packing(
        f"{_listed(given)} {how}",
        positions,
        Program(f"{program.name}_pack", tuple(given), tuple(kept)),
        Program(f"{program.name}_packed", (*others, *kept.values()), outputs),
    )


def _changed(
    program: Program, added: Iterable[Term], changes: Mapping[Term, Term]
) -> tuple[Term, ...]:
    """The outputs, where these take the places of terms."""
    wider = Program(program.name, (*program.inputs, *added), program.outputs)
    return substituted(wider, changes).outputs


def _inputs(roots: Iterable[Term]) -> set[Term]:
    return {term for term in walk(roots) if term.operator is INPUT}


def _fresh_names(program: Program, given: Sequence[Term]) -> Iterator[str]:
    """Names for what is packed, after the one input that it is made of."""
    taken = {_name(term) for term in program.inputs}
    base = f"{_name(given[0])}_packed" if len(given) == 1 else "packed"
    tries = (f"{base}{number or ''}" for number in count())
    return (name for name in tries if name not in taken)


def _listed(inputs: Sequence[Term]) -> str:
    """Their names, as a sentence has them."""
    *most, last = map(_name, inputs)
    return f"{', '.join(most)} and {last}" if most else last


def _name(term: Term) -> str:
    return str(term.parameter("name"))
