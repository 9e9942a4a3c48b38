"""Small kernels in LLVM IR, as a printer might hand them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aiosearch.codegen.ir import Buffer
from aiosearch.codegen.native.embedded_source import encode_program
from aiosearch.codegen.native.kernel_program import KernelPhase, KernelProgram
from aiosearch.codegen.native.machine import host
from aiosearch.tensor.types import DType

WORDS = {
    DType.F64: "double",
    DType.F32: "float",
    DType.F16: "half",
    DType.BF16: "bfloat",
    DType.I32: "i32",
    DType.BOOL: "i8",
}


_ADDED_BF16 = """\
%x.wide = fpext bfloat %x to float
%y.wide = fpext bfloat %y to float
%z.wide = fadd float %x.wide, %y.wide
%z.bits = bitcast float %z.wide to i32
%z.high = lshr i32 %z.bits, 16
%z.odd = and i32 %z.high, 1
%z.near = add i32 %z.bits, 32767
%z.even = add i32 %z.near, %z.odd
%z.round = lshr i32 %z.even, 16
%z.short = trunc i32 %z.round to i16
%z = bitcast i16 %z.short to bfloat""".splitlines()
"""Without AVX-512's instruction LLVM would call a function that no process need have."""


def source_of(native: KernelProgram, name: str = "function") -> str:
    """The text of a module that defines a program as a function of this name."""
    given = f'carried("""\n{encode_program(native, host())}\n""")'
    return f"from aiosearch.codegen.native.carrying import carried\n\n{name} = {given}\n"


def looping(symbol: str, arrays: Sequence[str], lines: Sequence[str]) -> str:
    """A phase whose block `%i` runs the lines, with a pointer for each array."""
    pointers = [
        f"  %{name}.at = getelementptr ptr, ptr %buffers, i64 {at}\n"
        f"  %{name} = load ptr, ptr %{name}.at"
        for at, name in enumerate(arrays)
    ]
    return f"""
define void @{symbol}(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{
entry:
{chr(10).join(pointers)}
  br label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %block ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %block, label %done
block:
{chr(10).join("  " + line for line in lines)}
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}}
"""


def load(value: str, array: str, word: str, at: str = "%i") -> list[str]:
    """Reads an element, which need be aligned to no more than one byte."""
    pointer = f"%{value}.from"
    return [
        f"{pointer} = getelementptr {word}, ptr %{array}, i64 {at}",
        f"%{value} = load {word}, ptr {pointer}, align 1",
    ]


def store(value: str, array: str, word: str, at: str = "%i") -> list[str]:
    """Writes an element."""
    pointer = f"%{array}.to.{at.strip('%')}"
    return [
        f"{pointer} = getelementptr {word}, ptr %{array}, i64 {at}",
        f"store {word} {value}, ptr {pointer}, align 1",
    ]


def adding(dtype: DType, *shape: int) -> KernelProgram:
    """Adds two arrays of one axis, one element a block; truth values are joined by `or`."""
    word, array = WORDS[dtype], Buffer("a", dtype, shape)
    verb = {DType.I32: "add", DType.BOOL: "or"}.get(dtype, "fadd")
    added = _ADDED_BF16 if dtype is DType.BF16 else [f"%z = {verb} {word} %x, %y"]
    lines = [*load("x", "a", word), *load("y", "b", word), *added, *store("%z", "o", word)]
    text = looping("adding.0", "abo", lines)
    outputs = (Buffer("o", dtype, shape),)
    return KernelProgram(
        "adding", text, (array, Buffer("b", dtype, shape)), outputs, (KernelPhase(shape[0]),)
    )


def copying(name: str, size: int, lines: Sequence[str], scratch: int = 0) -> KernelProgram:
    """A phase over `size` blocks with an f32 input `a` and an f32 output `o` of that size."""
    text = looping(f"{name}.0", "ao", lines)
    buffers = [(Buffer(each, DType.F32, (size,)),) for each in "ao"]
    return KernelProgram(name, text, *buffers, (KernelPhase(size, scratch),))


def reading(size: int, beyond: int) -> KernelProgram:
    """Reads `beyond` elements after the one that it writes, or before it."""
    lines = [f"%j = add i64 %i, {beyond}", *load("x", "a", "float", "%j")]
    return copying("reading", size, [*lines, *store("%x", "o", "float")])


def writing(size: int, beyond: int, array: str = "o") -> KernelProgram:
    """Copies, and clears another element of an array before."""
    lines = [f"%j = add i64 %i, {beyond}", *load("x", "a", "float")]
    again = store("0.0", array, "float", "%j")
    return copying("writing", size, [*lines, *again, *store("%x", "o", "float")])


def forgetting(size: int) -> KernelProgram:
    """Copies all but the first element."""
    lines = ["%first = icmp eq i64 %i, 0", "%j = select i1 %first, i64 1, i64 %i"]
    lines += [*load("x", "a", "float", "%j"), *store("%x", "o", "float", "%j")]
    return copying("forgetting", size, lines)


def reversing(size: int) -> KernelProgram:
    """Doubles into a temporary, then writes that in reverse: the second phase needs all of it."""
    first = [*load("x", "a", "float"), "%y = fadd float %x, %x", *store("%y", "t", "float")]
    second = [f"%j = sub i64 {size - 1}, %i", *load("x", "t", "float", "%j")]
    second += store("%x", "o", "float")
    text = looping("reversing.0", "aot", first) + looping("reversing.1", "aot", second)
    buffers = [(Buffer(each, DType.F32, (size,)),) for each in "ao"]
    return KernelProgram(
        "reversing", text, *buffers, (KernelPhase(size), KernelPhase(size)), (4 * size,)
    )


def relaying(size: int, blocks: Sequence[int]) -> KernelProgram:
    """Fills two outputs; then each phase adds one of them, in reverse, to the other's beginning.

    An empty phase comes first, and fills nothing.
    """
    filling = [*load("x", "a", "i32"), *store("%x", "b", "i32"), *store("%x", "c", "i32")]
    texts = [looping("relaying.0", "abc", filling), looping("relaying.1", "abc", filling)]
    for number, (own, other) in enumerate(zip("bc" * len(blocks), "cb" * len(blocks), strict=True)):
        lines = [f"%j = sub i64 {size - 1}, %i", *load("x", own, "i32")]
        lines += [*load("y", other, "i32", "%j"), "%z = add i32 %x, %y", *store("%z", own, "i32")]
        texts.append(looping(f"relaying.{number + 2}", "abc", lines))
    one, *two = (Buffer(each, DType.I32, (size,)) for each in "abc")
    phases = [KernelPhase(each) for each in (0, size, *blocks)]
    text = "".join(texts[: len(phases)])
    return KernelProgram("relaying", text, (one,), tuple(two), tuple(phases))


def relayed(values: Sequence[int], blocks: Sequence[int]) -> tuple[list[int], list[int]]:
    """What that gives."""
    own, other = list(values), list(values)
    for each in blocks:
        back = other[::-1]
        own = [one + back[at] if at < each else one for at, one in enumerate(own)]
        own, other = other, own
    return (own, other) if len(blocks) % 2 == 0 else (other, own)


def counting(size: int) -> KernelProgram:
    """Writes how often each block is run."""
    first = store("0", "o", "i32")
    second = [*load("x", "o", "i32"), "%y = add i32 %x, 1", *store("%y", "o", "i32")]
    text = looping("counting.0", "o", first) + looping("counting.1", "o", second)
    outputs = (Buffer("o", DType.I32, (size,)),)
    return KernelProgram("counting", text, (), outputs, (KernelPhase(size), KernelPhase(size)))


def keeping(size: int) -> KernelProgram:
    """Copies through 100 bytes of scratch memory, whose last element it passes through too."""
    lines = [*load("x", "a", "float"), *store("%x", "scratch", "float", "24")]
    return copying(
        "keeping",
        size,
        [*lines, *load("y", "scratch", "float", "24"), *store("%y", "o", "float")],
        100,
    )


def calling_nowhere() -> KernelProgram:
    """Calls a function that no library has."""
    lines = [*load("x", "a", "float"), "%y = call float @nowhere(float %x)"]
    native = copying("calling", 3, [*lines, *store("%y", "o", "float")])
    return replace(native, text=f"declare float @nowhere(float){native.text}")


def endless() -> KernelProgram:
    """Waits for a block that is not there."""
    native = copying("endless", 3, store("0.0", "o", "float"))
    return replace(native, text=native.text.replace("add i64 %i, 1", "add i64 %i, 0"))


def crowded(values: int) -> KernelProgram:
    """Holds so many vectors of four, all of them until the last one is known."""
    lines = []
    for at in range(values):
        lines += [
            f"%p{at} = getelementptr <4 x float>, ptr %a, i64 {at}",
            f"%v{at} = load <4 x float>, ptr %p{at}, align 4",
            f"%w{at} = fmul <4 x float> %v{at}, %v{at}",
            f"%s{at} = fadd <4 x float> %w{at}, {f'%s{at - 1}' if at else 'zeroinitializer'}",
        ]
    for at in range(values):
        lines += [
            f"%q{at} = getelementptr <4 x float>, ptr %o, i64 {at}",
            f"%u{at} = fadd <4 x float> %w{at}, %s{values - 1}",
            f"store <4 x float> %u{at}, ptr %q{at}, align 4",
        ]
    native = copying("crowded", 4 * values, lines)
    return replace(native, phases=(KernelPhase(1),))
