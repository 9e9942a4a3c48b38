"""Guarded candidates, which compute the original instead where their result is not finite.

A rewrite may overflow where the original does not: attention without a maximum, which divides
behind the second product instead of before it, adds up what may be as large as can be. What has
overflown is infinite or NaN, and mostly stays so down to the outputs. Where it does not, as what is
divided by it, the device has to have shown that the rewrite is right beside what overflows.

The text of a guarded `f` has both inside:

    def f(x):
        def swift(x): ...      # the rewrite
        def plain(x): ...      # the original
        found = swift(x)
        finite = jnp.isfinite(found).all()
        return lax.cond(finite, lambda: found, lambda: plain(x))
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from msgspec.structs import replace

from ...equivalence import UNIT
from ...tensor import Program
from ..array_types import array_types
from .candidate_names import GUARDED
from .generation import CandidateSource, Prepacking
from .jax_source import RESERVED, emit, free_name, merged, names


def guard_candidate(contender: CandidateSource, program: Program) -> CandidateSource:
    """The contender, but for inputs on which its result is not finite: there it computes `program`.

    For that it keeps the constant inputs of which it makes something beforehand, too.
    """
    before, source = contender.beforehand, contender.source
    constants = () if before is None else before.positions
    if before is not None:
        source = _keeping(source, before.function)
        types = array_types(program)
        constant_types = tuple(types[at] for at in constants)
        before = Prepacking(constants, before.function, (*before.types, *constant_types))
    return replace(
        contender,
        how=f"{contender.how}, {GUARDED}",
        source=_watching(source, contender.function, program, constants),
        beforehand=before,
        watched=True,
    )


def _watching(source: str, function: str, program: Program, constants: Sequence[int]) -> str:
    """The source with its function inside one that looks at the result."""
    function_name, original = names(program)
    inner = _function(source, function)
    arguments = [argument.arg for argument in inner.args.args]
    options = [argument.arg for argument in inner.args.kwonlyargs]
    used = {*RESERVED, *arguments, *options}
    swift, plain, result, finite = (
        free_name(name, used) for name in ("swift", "plain", "found", "finite")
    )
    constant_names = {at: free_name(original[at], used) for at in constants}
    call_positions = [at for at in range(len(original)) if at not in constant_names]
    # The function's own arguments come first, and behind them what was packed, which the original
    # does not take.
    by_place = {**dict(zip(call_positions, arguments, strict=False)), **constant_names}
    whole = [by_place[at] for at in range(len(original))]
    passed = [*arguments, *(f"{option}={option}" for option in options)]
    text, emitted = _text(source, inner, swift), emit(program)
    inner.args.args += [ast.arg(constant_names[at]) for at in constants]
    body = [
        text,
        _text(emitted, _function(emitted, function_name), plain),
        f"{result} = {swift}({', '.join(passed)})\n"
        f"{finite} = {_finite(result, program)}\n"
        f"return lax.cond({finite}, lambda: {result}, lambda: {plain}({', '.join(whole)}))",
    ]
    head = f"def {function}({ast.unparse(inner.args)}):"
    return _instead(source, inner, f"{head}\n{_indented(body)}\n")


def _keeping(source: str, function: str) -> str:
    """The source, in which the function that packs gives what it was given, too."""
    inner = _function(source, function)
    arguments = [argument.arg for argument in inner.args.args]
    packer = free_name("laid", {*RESERVED, *arguments})
    listed = ", ".join(arguments)
    body = [_text(source, inner, packer), f"return (*{packer}({listed}), {listed})"]
    return _instead(source, inner, f"def {function}({listed}):\n{_indented(body)}\n")


def _finite(result: str, program: Program) -> str:
    """An expression for whether all outputs are finite, but those of types that always are."""
    outputs = program.outputs
    texts = [result] if len(outputs) == 1 else [f"{result}[{at}]" for at in range(len(outputs))]
    floats = [text for text, term in zip(texts, outputs, strict=True) if term.dtype in UNIT]
    return " & ".join(f"jnp.isfinite({text}).all()" for text in floats)


def _function(source: str, name: str) -> ast.FunctionDef:
    """The definition of a function of a source."""
    definitions = (
        definition
        for definition in ast.parse(source).body
        if isinstance(definition, ast.FunctionDef)
    )
    return next(definition for definition in definitions if definition.name == name)


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
