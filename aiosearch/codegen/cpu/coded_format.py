"""The format of coded panels: bf16 in three quarters of its bytes, without loss.

Weights are of a few sizes: what a bf16 begins with, its sign and seven bits of its exponent, is in
a matrix nearly always one of a dozen bytes. A panel names sixteen, the two of zero and those that
occur most, and holds for each element four bits that say which one, and the byte that follows.

What begins with none of them is an exception, of which a panel lists some. In its place stands the
smallest normal number of its sign, and in the list by how much it is more: a sum of products begins
with those of the list. A panel with more exceptions than it has room for holds all elements as they
are.

Sources that were written once call what lays panels out by its name, and bring machine code that
reads them: this form stays as it is, and another one needs another name.

An array of whole numbers holds the heads of all panels, and then their elements, for which there is
room as they are. A head is the sixteen bytes, the count of exceptions, and behind `LISTED` bytes
the list: places in the panel, each with the difference as a float.
"""

from __future__ import annotations

from dataclasses import dataclass

NAMED_BYTES = 16
EXCEPTION_COUNT_OFFSET, EXCEPTION_LIST_OFFSET = 16, 64
"""The bytes in a head behind which these are."""
EXCEPTION_BYTES = 8
"""Bytes of an exception."""
UNCODED_PANEL = 1 << 30
"""A count from this on says that the elements stand as they are."""
CODED_GROUP = 64
"""So many elements are coded at once: two vectors, whose bytes lie as registers mix them."""
CODED_SIZE_RATIO = 0.75
"""Of its bytes, those of a panel's elements that are coded."""
_ELEMENTS_PER_EXCEPTION = 512
"""One element of so many may be an exception."""


@dataclass(frozen=True)
class CodedPanelFormat:
    """How large everything is."""

    panels: int
    elements: int
    """Of a panel; a multiple of what is coded at once."""

    @property
    def most(self) -> int:
        """Exceptions of a panel."""
        return max(8, self.elements // _ELEMENTS_PER_EXCEPTION // 8 * 8)

    @property
    def head(self) -> int:
        """Bytes of one."""
        return EXCEPTION_LIST_OFFSET + self.most * EXCEPTION_BYTES

    @property
    def heads(self) -> int:
        """Bytes of all."""
        return self.panels * self.head

    @property
    def bytes(self) -> int:
        return self.heads + 2 * self.panels * self.elements
