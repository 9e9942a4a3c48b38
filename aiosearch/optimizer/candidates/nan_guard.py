"""Guarded candidates, which compute the original instead where their result is not finite.

A rewrite may overflow where the original does not: of attention without a maximum, dividing behind
the second product instead of before it adds up what may be as large as can be. What has overflown
is infinite or no number, and mostly stays so down to the outputs. Where it does not, as what is
divided by it, the device has to have shown that the rewrite is right beside what overflows.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from msgspec.structs import replace

from ...equivalence.rounding.machine import UNIT
from ...tensor import Program
from ..array_types import array_types
from .generation import CandidateSource, Prepacking
from .jax_source import RESERVED, emit, free_name, merged, names


def guard_candidate(contender: CandidateSource, program: Program) -> CandidateSource:
    """The same, but for inputs on which it is not finite: there it is the program as given.

    For that it keeps what it makes something of beforehand, too.
    """
    before, source = contender.beforehand, contender.source
    constants = () if before is None else before.positions
    if before is not None:
        source = _keeping(source, before.function)
        types = array_types(program)
        kept = tuple(types[at] for at in constants)
        before = Prepacking(constants, before.function, (*before.types, *kept))
    return replace(
        contender,
        how=f"{contender.how}; watched",
        source=_watching(source, contender.function, program, constants),
        beforehand=before,
        watched=True,
    )


def _watching(source: str, function: str, program: Program, constants: Sequence[int]) -> str:
    """The source, its function within one that looks at what it gives."""
    own, original = names(program)
    inner = _function(source, function)
    given = [one.arg for one in inner.args.args]
    options = [one.arg for one in inner.args.kwonlyargs]
    taken = {*RESERVED, *given, *options}
    swift, plain, found, finite = (
        free_name(one, taken) for one in ("swift", "plain", "found", "finite")
    )
    kept = {at: free_name(original[at], taken) for at in constants}
    others = [at for at in range(len(original)) if at not in kept]
    by_place = {**dict(zip(others, given, strict=False)), **kept}
    whole = [by_place[at] for at in range(len(original))]
    passed = [*given, *(f"{one}={one}" for one in options)]
    text, emitted = _text(source, inner, swift), emit(program)
    inner.args.args += [ast.arg(kept[at]) for at in constants]
    body = [
        text,
        _text(emitted, _function(emitted, own), plain),
        f"{found} = {swift}({', '.join(passed)})\n"
        f"{finite} = {_finite(found, program)}\n"
        f"return lax.cond({finite}, lambda: {found}, lambda: {plain}({', '.join(whole)}))",
    ]
    head = f"def {function}({ast.unparse(inner.args)}):"
    return _instead(source, inner, f"{head}\n{_indented(body)}\n")


def _keeping(source: str, function: str) -> str:
    """The source, in which what makes something beforehand gives what it was given, too."""
    inner = _function(source, function)
    given = [one.arg for one in inner.args.args]
    laid = free_name("laid", {*RESERVED, *given})
    listed = ", ".join(given)
    body = [_text(source, inner, laid), f"return (*{laid}({listed}), {listed})"]
    return _instead(source, inner, f"def {function}({listed}):\n{_indented(body)}\n")


def _finite(found: str, program: Program) -> str:
    """An expression for whether all outputs are, but those of types in which all numbers are."""
    outputs = program.outputs
    each = [found] if len(outputs) == 1 else [f"{found}[{at}]" for at in range(len(outputs))]
    floats = [one for one, term in zip(each, outputs, strict=True) if term.dtype in UNIT]
    return " & ".join(f"jnp.isfinite({one}).all()" for one in floats)


def _function(source: str, name: str) -> ast.FunctionDef:
    found = (one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef))
    return next(one for one in found if one.name == name)


def _text(source: str, function: ast.FunctionDef, name: str) -> str:
    """A function's own lines, by another name."""
    lines = source.splitlines()[function.lineno - 1 : function.end_lineno]
    return "\n".join(lines).replace(f"def {function.name}(", f"def {name}(", 1)


def _instead(source: str, function: ast.FunctionDef, text: str) -> str:
    """The source with this text in the place of a function."""
    lines = source.splitlines()
    before, behind = lines[: function.lineno - 1], lines[function.end_lineno :]
    return merged("\n".join([*before, text, *behind]))


def _indented(parts: Sequence[str]) -> str:
    return textwrap.indent("\n\n".join(parts), "    ")
