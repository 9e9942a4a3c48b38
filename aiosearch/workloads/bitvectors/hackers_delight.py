"""The 25 Hacker's Delight tasks of the synthesis literature, each with a reference program.

The list is that of Gulwani, Jha, Tiwari and Venkatesan, "Synthesis of loop-free programs"
(PLDI 2011); the programs are those of Warren's "Hacker's Delight", in operators of this package.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from .instructions import BASIC, OPERATORS
from .programs import StraightLineProgram, read_program

if TYPE_CHECKING:
    from collections.abc import Mapping


class HackersDelightTask(Struct, frozen=True):
    """A function of words, given by a reference program that is right at widths 8, 16 and 32."""

    name: str
    purpose: str
    inputs: tuple[str, ...]
    reference: str

    @property
    def operators(self) -> tuple[str, ...]:
        """What a program for this task may be made of, in the order of `OPERATORS`."""
        used = {step.split()[0] for step in self.reference.split(";")}
        return tuple(name for name in OPERATORS if name in used or name in BASIC)

    def program(self, width: int) -> StraightLineProgram:
        """The reference program, its constants being those of `width`."""
        return read_program(self.reference, self.inputs, width)


_X, _XY = ("x",), ("x", "y")

_DECLARED = (
    HackersDelightTask("P1", "turn off the rightmost 1", _X, "sub x 1; and x t1"),
    HackersDelightTask("P2", "zero if of the form 2^n - 1", _X, "add x 1; and x t1"),
    HackersDelightTask("P3", "isolate the rightmost 1", _X, "neg x; and x t1"),
    HackersDelightTask(
        "P4", "mask of the rightmost 1 and the trailing 0s", _X, "sub x 1; xor x t1"
    ),
    HackersDelightTask("P5", "propagate the rightmost 1 to the right", _X, "sub x 1; or x t1"),
    HackersDelightTask("P6", "turn on the rightmost 0", _X, "add x 1; or x t1"),
    HackersDelightTask("P7", "isolate the rightmost 0", _X, "not x; add x 1; and t1 t2"),
    HackersDelightTask("P8", "mask of the trailing 0s", _X, "sub x 1; not x; and t1 t2"),
    HackersDelightTask("P9", "absolute value", _X, "ashr x w-1; xor x t1; sub t2 t1"),
    HackersDelightTask("P10", "same number of leading 0s", _XY, "and x y; xor x y; ule t2 t1"),
    HackersDelightTask("P11", "fewer leading 0s", _XY, "not y; and x t1; ult y t2"),
    HackersDelightTask("P12", "not more leading 0s", _XY, "not x; and y t1; ule t2 x"),
    HackersDelightTask("P13", "sign", _X, "neg x; lshr t1 w-1; ashr x w-1; or t2 t3"),
    HackersDelightTask(
        "P14", "floor of the average", _XY, "and x y; xor x y; lshr t2 1; add t1 t3"
    ),
    HackersDelightTask(
        "P15", "ceiling of the average", _XY, "or x y; xor x y; lshr t2 1; sub t1 t3"
    ),
    HackersDelightTask(
        "P16", "signed maximum", _XY, "xor x y; sle y x; neg t2; and t1 t3; xor t4 y"
    ),
    HackersDelightTask(
        "P17", "turn off the rightmost run of 1s", _X, "sub x 1; or x t1; add t2 1; and x t3"
    ),
    HackersDelightTask(
        "P18",
        "whether a power of 2",
        _X,
        "sub x 1; and x t1; some x; some t2; xor t4 1; and t3 t5",
    ),
    HackersDelightTask(
        "P19",
        "exchange the field under m with the one k bits to its left",
        ("x", "m", "k"),
        "lshr x k; xor x t1; and t2 m; shl t3 k; xor t3 t4; xor t5 x",
    ),
    HackersDelightTask(
        "P20",
        "next higher number with as many 1s",
        _X,
        "neg x; and x t1; add x t2; xor x t3; lshr t4 2; udiv t5 t2; or t3 t6",
    ),
    HackersDelightTask(
        "P21",
        "the next of three values in a cycle",
        ("x", "a", "b", "c"),
        "eq x c; neg t1; xor a c; eq x a; neg t4; xor b c;"
        "and t2 t3; and t5 t6; xor t7 t8; xor t9 c",
    ),
    HackersDelightTask(
        "P22",
        "parity",
        _X,
        "lshr x 1; xor x t1; lshr t2 2; xor t2 t3; and t4 0x11; mul t5 0x11; lshr t6 w-4; and t7 1",
    ),
    HackersDelightTask(
        "P23",
        "number of 1s",
        _X,
        "lshr x 1; and t1 0x55; sub x t2; and t3 0x33; lshr t3 2; and t5 0x33; add t4 t6;"
        "lshr t7 4; add t7 t8; and t9 0x0f; mul t10 0x01; lshr t11 w-8",
    ),
    HackersDelightTask(
        "P24",
        "round up to a power of 2",
        _X,
        "sub x 1; lshr t1 1; or t1 t2; lshr t3 2; or t3 t4; lshr t5 4; or t5 t6;"
        "lshr t7 8; or t7 t8; lshr t9 16; or t9 t10; add t11 1",
    ),
    HackersDelightTask(
        "P25",
        "high half of the product",
        _XY,
        "and x low; lshr x w/2; and y low; lshr y w/2; mul t1 t3; mul t2 t3; mul t1 t4;"
        "mul t2 t4; lshr t5 w/2; add t6 t9; and t10 low; lshr t10 w/2; add t7 t11;"
        "lshr t13 w/2; add t12 t14; add t8 t15",
    ),
)

TASKS: Mapping[str, HackersDelightTask] = MappingProxyType({task.name: task for task in _DECLARED})
"""The 25 tasks by name."""
