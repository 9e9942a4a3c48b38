"""Weight packing: a program parted into what is computed once of its constant inputs, and what each
call computes.

Example: `f(x, w, g) = x @ (w * g)` with w and g constant is parted into `f_pack(w, g) = w * g` and
`f_packed(x, packed) = x @ packed`. With `turned` the operand of the product is kept transposed.

`merge_weights` gives programs that pay only where weights are prepared beforehand: products of one
input with several weights as one product, and products of halves in 32 bits. They are yet to be
verified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count

from ...tensor import Program, Term, apply, tensor, walk
from ...tensor.analysis.substitution import substituted
from ...tensor.terms import INPUT
from ...tensor.types import HALVES
from ..algebra.terms import rank_swap, settled, sizes, swapped

_FREE = ("broadcast", "reshape")
"""Operators that cost a call nothing, or less than to read what comes of them: what they take is
packed instead."""


@dataclass(frozen=True)
class PackedProgram:
    """The two parts, and which of the program's inputs the first one takes."""

    how: str
    """What is packed, in words: `W made beforehand`."""
    positions: tuple[int, ...]
    """Positions of the inputs that `pack` takes."""
    pack: Program
    """Takes these inputs, and gives arrays."""
    run: Program
    """Takes the other inputs, then those arrays."""


def packings(program: Program, constant: tuple[int, ...]) -> list[PackedProgram]:
    """The ways to part a program, each once; none where nothing can be made beforehand.

    The operands of products lie as the products read them, or transposed.
    """
    by_run: dict[Program, PackedProgram] = {}
    for how, turned in (("made beforehand", False), ("transposed beforehand", True)):
        ready = settled(program, constant)
        stored = {
            term: form
            for term, form in _stored(program, ready, turned)
            if form.operator is not INPUT and term not in program.outputs
        }
        if stored:
            parted = _parted(program, constant, how, stored)
            # Both ways are one where no product takes a weight.
            by_run.setdefault(parted.run, parted)
    return list(by_run.values())


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
    """The term behind broadcasts and reshapes: the smaller array is kept."""
    while term.operator.name in _FREE and term.arguments[0] in ready:
        term = term.arguments[0]
    return term


def _parted(
    program: Program, constant: tuple[int, ...], how: str, stored: dict[Term, Term]
) -> PackedProgram:
    needed = _inputs(stored.values())
    positions = tuple(at for at in constant if program.inputs[at] in needed)
    constants = [program.inputs[at] for at in positions]
    arguments = [term for term in program.inputs if term not in constants]
    names = _fresh_names(program, constants)
    packed: dict[Term, Term] = {}
    changes: dict[Term, Term] = {}
    for term, form in stored.items():
        # Several terms may be kept as one array: a weight, and its transpose.
        if form not in packed:
            packed[form] = tensor(next(names), form.dtype, form.shape)
        changes[term] = packed[form] if form is term else swapped(packed[form])
    left = _inputs(_changed(program, packed.values(), changes))
    for term in constants:
        if term in left:  # a call reads it as it is, too
            changes[term] = packed[term] = tensor(next(names), term.dtype, term.shape)
    outputs = _changed(program, packed.values(), changes)
    return PackedProgram(
        f"{_listed(constants)} {how}",
        positions,
        Program(f"{program.name}_pack", tuple(constants), tuple(packed)),
        Program(f"{program.name}_packed", (*arguments, *packed.values()), outputs),
    )


def _changed(
    program: Program, added: Iterable[Term], changes: Mapping[Term, Term]
) -> tuple[Term, ...]:
    """The outputs of the program, with `changes` made; `added` are further inputs."""
    wider = Program(program.name, (*program.inputs, *added), program.outputs)
    return substituted(wider, changes).outputs


def _inputs(roots: Iterable[Term]) -> set[Term]:
    return {term for term in walk(roots) if term.operator is INPUT}


def _fresh_names(program: Program, constants: Sequence[Term]) -> Iterator[str]:
    """Names for what is packed, after the one input that it is made of: `W_packed`."""
    used = {_name(term) for term in program.inputs}
    base = f"{_name(constants[0])}_packed" if len(constants) == 1 else "packed"
    tries = (f"{base}{number or ''}" for number in count())
    return (name for name in tries if name not in used)


def _listed(inputs: Sequence[Term]) -> str:
    """Names of inputs, as a sentence has them."""
    *most, last = map(_name, inputs)
    return f"{', '.join(most)} and {last}" if most else last


def _name(term: Term) -> str:
    return str(term.parameter("name"))


def merge_weights(program: Program, constant: tuple[int, ...]) -> list[Program]:
    """The program with weights side by side, and with wider ones, where there are any."""
    joined = [candidate for candidate in (_joined(program, constant),) if candidate != program]
    wider = (_widened(candidate, constant) for candidate in [program, *joined])
    return [*joined, *(candidate for candidate in wider if candidate not in (program, *joined))]


def _joined(program: Program, constant: tuple[int, ...]) -> Program:
    """Products of one term with several weights as one product with all their columns.

    One product of [8, 4096] and [4096, 3 · 4096] reads x once, and has more columns to share among
    threads.
    """
    while (group := next(_groups(program, constant), None)) is not None:
        program = substituted(program, dict(_columns(group)))
    return program


def _groups(program: Program, constant: tuple[int, ...]) -> Iterator[list[Term]]:
    """Products that differ in their settled right operands alone."""
    ready = settled(program, constant)
    alike: defaultdict[tuple[object, ...], list[Term]] = defaultdict(list)
    for term in program.terms():
        if term.operator.name == "matmul" and term not in ready and term.arguments[1] in ready:
            left, right = term.arguments
            alike[left, right.dtype, right.shape[:-1]].append(term)
    return (group for group in alike.values() if len(group) > 1)


def _columns(group: Sequence[Term]) -> Iterator[tuple[Term, Term]]:
    """Each product of a group, and the slice of the joined product that has its columns."""
    weights = [term.arguments[1] for term in group]
    last = len(group[0].shape) - 1
    rank = len(weights[0].shape)
    whole = group[0].arguments[0] @ apply("concatenate", *weights, axis=rank - 1)
    widths = [sizes(weight)[-1] for weight in weights]
    for term, stop, width in zip(group, accumulate(widths), widths, strict=True):
        yield term, apply("slice", whole, axis=last, start=stop - width, stop=stop)


def _widened(program: Program, constant: tuple[int, ...]) -> Program:
    """Products of half types with weights, in 32 bits and rounded after."""
    ready = settled(program, constant)
    # From the outputs on: what replaces a term leaves those before it as they are.
    for term in reversed(list(program.terms())):
        weighted = term not in ready and any(argument in ready for argument in term.arguments)
        if weighted and term.operator.name == "matmul" and term.dtype in HALVES:
            program = substituted(program, {term: _wide(term)})
    return program


def _wide(term: Term) -> Term:
    left, right = (apply("cast", argument, dtype="f32") for argument in term.arguments)
    return apply("cast", left @ right, dtype=term.dtype)
