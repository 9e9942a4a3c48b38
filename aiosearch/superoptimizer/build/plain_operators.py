"""A program of custom kernels as plain tensor operators, without its blocks.

The order of operations that the superoptimizer found is worth something without its kernels too,
where a compiler makes its own: LoRA becomes `X·(W + A·B)`, with one product with X.
"""

from __future__ import annotations

from ...tensor import Program, Term, apply
from ...tensor.errors import TensorError
from ...tensor.mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE, Kernel
from ...tensor.operator import ParameterKind
from ...tensor.types import Place
from ..algebra.program_reader import NormalFormProgram, read_with


def plain(program: Program, reference: NormalFormProgram) -> Program | None:
    """The program without blocks; None where what a block computes needs them.

    Without its loop, a sum may come before what it should come after, so the result is read into
    forms and compared with `reference`.
    """
    values: dict[Term, Term] = {term: term for term in program.inputs}
    try:
        for term in program.terms():
            if term.operator is RESULT:
                kernel: Kernel = term.parameter("kernel")
                for inner in kernel.body:
                    values[inner] = _unblocked(inner, values)
                values[term] = values[kernel.outputs[term.parameter("index")][0]]
            elif term not in values and term.place in (Place.DEVICE, Place.ANYWHERE):
                values[term] = _reapplied(term, values)
        outputs = tuple(values[output] for output in program.outputs)
        unblocked = Program(program.name, program.inputs, outputs)
        same = read_with(unblocked, reference) == list(reference.outputs)
    except TensorError:
        return None
    return unblocked if same else None


def _reapplied(term: Term, values: dict[Term, Term]) -> Term:
    """`term` with new operands from `values`."""
    if not term.arguments:
        return term
    return apply(
        term.operator, *(values[argument] for argument in term.arguments), **dict(term.parameters)
    )


def _unblocked(term: Term, values: dict[Term, Term]) -> Term:
    """What a term of a block computes on whole tensors."""
    (source, *_) = [values[argument] for argument in term.arguments] or [term]
    if term.operator in (LOAD, READ, WRITE) or term is source:
        return source
    if term.operator is ACCUMULATE:
        return _accumulated(term, source)
    if any(parameter.kind is ParameterKind.SHAPE for parameter in term.operator.parameters):
        raise TensorError("a shape that a tile has")
    return _reapplied(term, values)


def _accumulated(term: Term, source: Term) -> Term:
    """What an accumulator comes to without its loop; `source` is the whole tensor."""
    kind, last = term.parameter("kind"), (len(source.shape) - 1,)
    if kind in ("sum", "mean"):
        return apply(kind, source, axes=last, keep=True)
    if kind == "rms":
        squares = apply("mean", apply("square", source), axes=last, keep=True)
        return apply("sqrt", squares)
    if kind == "redtox":
        return apply("fold", source, axis=last[0], size=term.parameter("columns"))
    return source
