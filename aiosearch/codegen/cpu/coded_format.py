"""The format of coded panels: bf16 in three quarters of its bytes, without loss.

The problem: a product of few rows waits for its weights, so fewer bytes are less time. The first
byte of a bf16 is its sign and seven bits of its exponent. The elements of a weight matrix are of
similar size, so nearly all have one of a dozen first bytes.

The format: a panel names sixteen first bytes, the two of zero and the fourteen most frequent
others. For each element it stores four bits that select one of them, and the second byte as it is:
12 bits for 16.

An element whose first byte is not named is an exception. In its place stands the smallest normal
number of its sign, 2^-126, and the list of exceptions holds its position and the difference to that
number. A sum of products starts with the products of the listed differences, so it comes out the
same. A panel with more exceptions than it has room for stores all its elements as they are, and its
count says so.

Layout: an array of i32 holds the heads of all panels, and then their elements, with room for the
uncoded form. A head is 16 named bytes, the number of exceptions at byte 16, and from byte 64 on the
exceptions: an i32 position and an f32 difference each.

Example: W[4096, 4096] in panels of 32 columns is 128 panels of 131,072 elements. A head has room
for 256 exceptions and takes 64 + 256 * 8 = 2,112 bytes; all heads are 270,336 bytes beside
33,554,432 bytes for elements, of which a coded panel uses three quarters.

Compatibility: sources that `optimize --emit` once wrote call `encode_panels` by name, and carry
machine code that reads its output. This format never changes; another one needs another name.
"""

from __future__ import annotations

from dataclasses import dataclass

NAMED_BYTES = 16
"""First bytes that a panel names."""
EXCEPTION_COUNT_OFFSET, EXCEPTION_LIST_OFFSET = 16, 64
"""Byte offsets in a head of the number of exceptions, and of their list."""
EXCEPTION_BYTES = 8
"""Bytes of one exception."""
UNCODED_PANEL = 1 << 30
"""A count from here on says that the panel's elements are stored as they are."""
CODED_GROUP = 64
"""Elements that are decoded together: two vectors of 32 bf16, whose bytes are in the order in which
the `pshufb` and byte interleaving of `emit.access.decode_vectors` leave them."""
CODED_SIZE_RATIO = 0.75
"""Bytes of a coded element over those of a bf16."""
_ELEMENTS_PER_EXCEPTION = 512
"""One element in so many may be an exception. Normally distributed weights have fewer than one in a
thousand."""


@dataclass(frozen=True)
class CodedPanelFormat:
    """Sizes and offsets for `panels` panels of `elements` elements each."""

    panels: int
    elements: int
    """Elements of a panel, a multiple of `CODED_GROUP`."""

    @property
    def most(self) -> int:
        """Exceptions that a panel has room for, a multiple of 8 to keep heads aligned."""
        return max(8, self.elements // _ELEMENTS_PER_EXCEPTION // 8 * 8)

    @property
    def head(self) -> int:
        """Bytes of one head."""
        return EXCEPTION_LIST_OFFSET + self.most * EXCEPTION_BYTES

    @property
    def heads(self) -> int:
        """Bytes of all heads."""
        return self.panels * self.head

    @property
    def bytes(self) -> int:
        """Bytes of the whole array."""
        return self.heads + 2 * self.panels * self.elements
