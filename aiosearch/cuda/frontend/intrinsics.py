"""Functions that CUDA declares and nobody defines: what each becomes, and how exact that is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import UnsupportedConstruct
from ..ir.operations import Atomic, Barrier, CallOperation, ConstantOperand, Load, Operand, Warp
from ..ir.types import ScalarType
from . import clang, layout, scanner
from .cursors import Cursor, Leaves

if TYPE_CHECKING:
    from .translator import Translator

_UNARY = [
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "lgamma",
    "tgamma",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "round",
]
_MATH: dict[str, str] = {
    **{name: name for name in _UNARY},
    **{f"{name}f": name for name in _UNARY},
    "nearbyint": "rint",
    "nearbyintf": "rint",
    "fabs": "abs",
    "fabsf": "abs",
    "abs": "abs",
    "labs": "abs",
    "llabs": "abs",
    **{
        f"{name}{suffix}": meaning
        for name, meaning in {
            "pow": "pow",
            "atan2": "atan2",
            "hypot": "hypot",
            "fmod": "rem",
            "fmin": "min",
            "fmax": "max",
            "copysign": "copysign",
            "fma": "fma",
        }.items()
        for suffix in ("", "f")
    },
    "min": "min",
    "max": "max",
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
    "__expf": "exp",
    "__exp10f": "exp10",
    "__logf": "log",
    "__log2f": "log2",
    "__log10f": "log10",
    "__sinf": "sin",
    "__cosf": "cos",
    "__tanf": "tan",
    "__powf": "pow",
    "__fsqrt_rn": "sqrt",
    "__frsqrt_rn": "rsqrt",
    "__fdividef": "div",
    "__fdiv_rn": "div",
    "__ddiv_rn": "div",
    "__fadd_rn": "add",
    "__dadd_rn": "add",
    "__fsub_rn": "sub",
    "__fmul_rn": "mul",
    "__dmul_rn": "mul",
    "__fmaf_rn": "fma",
    "__fma_rn": "fma",
    "__hadd": "add",
    "__hsub": "sub",
    "__hmul": "mul",
    "__hdiv": "div",
    "__hfma": "fma",
    "__popc": "popc",
    "__popcll": "popc",
    "__clz": "clz",
    "__clzll": "clz",
    "__ffs": "ffs",
    "__ffsll": "ffs",
    "__brev": "brev",
    "__brevll": "brev",
    "__mulhi": "mulhi",
    "__umulhi": "mulhi",
    "__mul24": "mul",
    "__umul24": "mul",
}
"""Operations of the IR on operands of one type."""

_CASTS = frozenset(
    [
        "__half2float",
        "__float2half",
        "__float2half_rn",
        "__float2int_rz",
        "__float2uint_rz",
        "__int2float_rn",
        "__uint2float_rn",
        "__double2int_rz",
        "__double2float_rn",
    ]
)
_ROUNDED_CASTS = {"__float2int_rn": "rint", "__float2int_rd": "floor", "__float2int_ru": "ceil"}
_BITS = {
    "__float_as_int": ScalarType.I32,
    "__float_as_uint": ScalarType.U32,
    "__int_as_float": ScalarType.F32,
    "__uint_as_float": ScalarType.F32,
    "__double_as_longlong": ScalarType.I64,
    "__longlong_as_double": ScalarType.F64,
}
_ATOMICS = {
    "atomicAdd": "add",
    "atomicSub": "sub",
    "atomicExch": "exch",
    "atomicMin": "min",
    "atomicMax": "max",
    "atomicAnd": "and",
    "atomicOr": "or",
    "atomicXor": "xor",
    "atomicInc": "inc",
    "atomicDec": "dec",
    "atomicCAS": "cas",
}
_SHUFFLES = {"__shfl": "idx", "__shfl_up": "up", "__shfl_down": "down", "__shfl_xor": "xor"}
_VOTES = {"__ballot": "ballot", "__any": "any", "__all": "all"}
_SPECIAL = {
    "__builtin_inff": 0x7F800000,
    "__builtin_inf": 0x7FF0000000000000,
    "__builtin_nanf": 0x7FC00000,
    "__builtin_nan": 0x7FF8000000000000,
}
"""What `INFINITY` and `NAN` stand for, by their bits: a NaN as a number is not equal to itself."""
_FENCES = frozenset({"__threadfence", "__threadfence_block", "__threadfence_system"})


def translated(translator: Translator, cursor: Cursor, name: str) -> Leaves | None:
    """What a call of a declared function gives; none where it is none of CUDA's."""
    arguments = list(cursor.get_arguments())
    if name in scanner.BARRIERS:
        return _barrier(translator, name, arguments)
    if name in _ATOMICS:
        return _atomic(translator, name, arguments)
    base = name.removesuffix("_sync")
    if base in _SHUFFLES:
        return _shuffle(translator, base, arguments[name.endswith("_sync") :])
    if base in _VOTES:
        return _vote(translator, base, arguments[name.endswith("_sync") :])
    if name in _OTHERS:
        return _OTHERS[name](translator, arguments)
    result = layout.scalar(cursor.type)
    if result is None:
        return None
    return _computed(translator, name, arguments, result)


def _computed(
    translator: Translator, name: str, arguments: Sequence[Cursor], result: ScalarType
) -> Leaves | None:
    builder = translator.builder
    if name in _MATH:
        values = [translator.scalar(item) for item in arguments]
        if name.startswith("is"):
            return (builder.compute(name, ScalarType.BOOL, *values),)
        if _MATH[name] == "pow":
            values = [builder.cast(item, result) for item in values]
        if _MATH[name] in ("min", "max"):
            values = [builder.cast(item, result) for item in values]
        type = values[0].type if _MATH[name] in ("popc", "clz", "ffs") else result
        return (builder.cast(builder.compute(_MATH[name], type, *values), result),)
    if name in _CASTS:
        return (builder.cast(translator.scalar(arguments[0]), result),)
    if name in _SPECIAL:
        bits = ScalarType.I32 if result is ScalarType.F32 else ScalarType.I64
        return (builder.compute("bitcast", result, ConstantOperand(_SPECIAL[name], bits)),)
    if name in _ROUNDED_CASTS:
        value = translator.scalar(arguments[0])
        rounded = builder.compute(_ROUNDED_CASTS[name], value.type, value)
        return (builder.cast(rounded, result),)
    if name in _BITS:
        return (builder.compute("bitcast", _BITS[name], translator.scalar(arguments[0])),)
    if name == "__frcp_rn":
        value = translator.scalar(arguments[0])
        return (builder.compute("div", value.type, ConstantOperand(1.0, value.type), value),)
    if name == "__saturatef":
        value = translator.scalar(arguments[0])
        low = builder.compute("max", value.type, value, ConstantOperand(0.0, value.type))
        return (builder.compute("min", value.type, low, ConstantOperand(1.0, value.type)),)
    if name in ("fdim", "fdimf"):
        first, second = (translator.scalar(item) for item in arguments)
        less = builder.compute("sub", result, first, second)
        return (builder.compute("max", result, less, ConstantOperand(0.0, result)),)
    return None


def _barrier(translator: Translator, name: str, arguments: Sequence[Cursor]) -> Leaves:
    """`__syncthreads_count` and its kin add up in memory of the block, between barriers."""
    builder = translator.builder
    if name == "__syncthreads":
        builder.write(Barrier(at=builder.at))
        return ()
    return translator.block_vote(name.rpartition("_")[2], translator.scalar(arguments[0]))


def _atomic(translator: Translator, name: str, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    address = translator.address(arguments[0])
    element = layout.scalar(layout.pointee(arguments[0].type))
    if element is None:
        raise UnsupportedConstruct(f"{name} on {arguments[0].type.spelling}", builder.at)
    values = [builder.cast(translator.scalar(item), element) for item in arguments[1:]]
    result = builder.value(element)
    compare = values[0] if name == "atomicCAS" else None
    builder.write(Atomic(result, _ATOMICS[name], address, values[-1], compare, builder.at))
    return (result,)


def _shuffle(translator: Translator, name: str, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    value = translator.scalar(arguments[0])
    lane = builder.cast(translator.scalar(arguments[1]), ScalarType.I32)
    width: Operand = ConstantOperand(32, ScalarType.I32)
    if len(arguments) > 2 and (clang.children(arguments[2]) or arguments[2].location.line):
        width = translator.scalar(arguments[2])
    result = builder.value(value.type)
    kind = f"shfl.{_SHUFFLES[name]}"
    builder.write(Warp(result, kind, (value, lane, width), builder.at))
    return (result,)


def _vote(translator: Translator, name: str, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    condition = translator.condition(arguments[0])
    result = builder.value(ScalarType.U32 if name == "__ballot" else ScalarType.I32)
    builder.write(Warp(result, _VOTES[name], (condition,), builder.at))
    return (result,)


def _active(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    result = builder.value(ScalarType.U32)
    builder.write(Warp(result, "ballot", (ConstantOperand(True, ScalarType.BOOL),), builder.at))
    return (result,)


def _warp_barrier(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    translator.builder.write(Barrier(level="warp", at=translator.builder.at))
    return ()


def _read_only(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    element = layout.scalar(layout.pointee(arguments[0].type))
    if element is None:
        raise UnsupportedConstruct(f"__ldg of {arguments[0].type.spelling}", builder.at)
    result = builder.value(element)
    builder.write(Load(result, translator.address(arguments[0]), builder.at))
    return (result,)


def _printf(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    return _printed(translator, "printf", arguments)


def _fprintf(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    """Of host functions, to the two streams that everybody has."""
    stream = scanner.stripped(arguments[0]).spelling
    if translator.is_kernel or stream not in ("stdout", "stderr"):
        raise UnsupportedConstruct(f"fprintf to {stream or 'a file'}", translator.builder.at)
    return _printed(translator, "printf" if stream == "stdout" else "eprintf", arguments[1:])


def _printed(translator: Translator, name: str, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    text = _literal(arguments[0])
    if text is None:
        raise UnsupportedConstruct("a format of printf that is no literal", builder.at)
    values: list[Operand] = []
    for item in arguments[1:]:
        inserted = _literal(item)
        if inserted is None:
            values.append(translator.scalar(item))
        else:  # such as __FILE__
            text = _filled(text, len(values), inserted)
    builder.write(CallOperation(name, tuple(values), text, None, builder.at))
    return (ConstantOperand(0, ScalarType.I32),)


def _literal(argument: Cursor) -> str | None:
    text = clang.evaluated(argument) or clang.string(scanner.stripped(argument))
    return text.decode(errors="replace") if isinstance(text, bytes) else None


def _filled(text: str, place: int, inserted: str) -> str:
    """A format with a string in the place of its field of that number."""
    fields = [item for item in re.finditer(r"%[^%a-zA-Z]*[a-zA-Z]|%%", text) if item[0] != "%%"]
    if place >= len(fields):
        return text
    start, end = fields[place].span()
    return text[:start] + inserted.replace("%", "%%") + text[end:]


def _quit(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    """What ends a program, as host code does where CUDA reports an error."""
    builder = translator.builder
    if translator.is_kernel:
        raise UnsupportedConstruct("the end of a program in a kernel", builder.at)
    values = tuple(translator.scalar(item) for item in arguments)
    builder.write(CallOperation("quit", values, "", None, builder.at))
    return ()


def _assert(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    builder.write(
        CallOperation("assert", (translator.condition(arguments[0]),), "", None, builder.at)
    )
    return ()


def _trap(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    builder.write(
        CallOperation(
            "assert", (ConstantOperand(False, ScalarType.BOOL),), "__trap()", None, builder.at
        )
    )
    return ()


def _fence(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    """Nothing: within a block, what one thread writes is seen in order."""
    return ()


def _clock(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    builder = translator.builder
    result = builder.value(ScalarType.I64)
    builder.write(CallOperation("clock", (), "", result, builder.at))
    return (result,)


def _clock32(translator: Translator, arguments: Sequence[Cursor]) -> Leaves:
    (value,) = _clock(translator, arguments)
    return (translator.builder.cast(value, ScalarType.I32),)


_OTHERS: dict[str, Callable[[Translator, Sequence[Cursor]], Leaves]] = {
    "__activemask": _active,
    "__syncwarp": _warp_barrier,
    "__ldg": _read_only,
    "printf": _printf,
    "fprintf": _fprintf,
    "exit": _quit,
    "abort": _quit,
    "__aio_assert": _assert,
    "__trap": _trap,
    "clock64": _clock,
    "clock": _clock32,
    **dict.fromkeys(_FENCES, _fence),
}
