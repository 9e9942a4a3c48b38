"""What no program can do without: bytes that have to be moved, whatever computes the outputs."""

from __future__ import annotations

from ..devices import Device
from ..tensor import Dim, Program, Term
from ..tensor.terms import bytes_of
from .values import number

_DROPS = ("slice", "diagonal", "select")
"""Operators whose result need not depend on all that they are given."""


def least_seconds(program: Program, device: Device, kernels: int = 1) -> float:
    """A lower bound for every program that gives the same, in so many kernels or more.

    Every input is read once from the device's memory, as far as the outputs depend on all of it;
    every output is written there; every kernel is launched. An input that cancels out, as in
    `X - X`, is taken for needed.
    """
    traffic = number(least_bytes(program))
    return traffic / device.bytes_per_second + kernels * device.launch_seconds


def least_bytes(program: Program) -> Dim:
    """The bytes of the outputs, and of the inputs that they depend on wholly."""
    whole = _whole(program)
    tensors = {*program.outputs, *(one for one in program.inputs if one in whole)}
    total: Dim = 0
    for term in tensors:
        total = total + bytes_of(term.type)
    return total


def _whole(program: Program) -> set[Term]:
    """The terms of which every element counts."""
    found = set(program.outputs)
    for term in reversed(list(program.terms())):
        if term in found and not _drops(term):
            found.update(term.arguments)
    return found


def _drops(term: Term) -> bool:
    if term.operator.name == "convolution":
        steps = (*term.parameter("strides"), *term.parameter("dilation"))
        return any(step > 1 for step in steps)
    return term.operator.name in _DROPS
