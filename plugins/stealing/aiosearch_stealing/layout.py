"""Where everything lies in the memory of a board.

A header, then a column for each thing that everybody looks at often, one entry a place; then the
places' slots, then the verdicts. Whoever writes in a place's slots holds the place's lock. For two
places:

    0      number of places, 64 bytes
    64     owners 2 x 8, weights 2 x 8, costs 2 x 8
    112    resting 2 rounded to 8, promised 2 rounded to 8
    128    slots 2 x 8 x 24: word, length, weight of each
    4096   room 2 x 8 x 56 KB, then the verdicts

A slot's word is `number << 24 | taker`: one store of eight bytes decides what becomes of an offer.
"""

from __future__ import annotations

import math
import mmap

SLOTS = 8
"""Offers that a place can hold at a time."""
ROOM = 56 * 1024
"""Bytes that an offer's blob may have; memory is taken only for those that were used."""
VERDICTS = 1 << 16
"""Answers of z3 that there is room for, in the table of `Verdicts`."""
VERDICT_WORDS = 4
MOST_PLACES = 4096

TAKER = (1 << 24) - 1
"""The bits of a word that tell who has an offer; the number is above them."""
OPEN = 0
REVOKED = TAKER
"""Stands where a slot's taker would: no owner has that number."""

_HEADER = 64
_COLUMNS = 3
_SLOT_WORDS = 3
_PAGE = 4096


class BoardLayout:
    """The parts of a mapping, by name. A store of one entry is whole, whoever reads it."""

    def __init__(self, mapping: mmap.mmap, places: int) -> None:
        self.places = places
        self._mapping = mapping
        self._whole = memoryview(mapping)
        at = _HEADER
        self.owners = self._part(at, 8 * places).cast("Q")
        """The owner's number of who sits at a place; 0 for nobody."""
        at += 8 * places
        self.weights = self._part(at, 8 * places).cast("d")
        """What is offered at a place, by its share of the tree; after a death, perhaps too much."""
        at += 8 * places
        self.costs = self._part(at, 8 * places).cast("d")
        """The cost of the best solution that a place's worker told of."""
        at += 8 * places
        self.resting = self._part(at, places)
        """Whether a place's worker waits for offers."""
        at += _rounded(places, 8)
        self.promised = self._part(at, places)
        """Whether offers are on their way to a place."""
        at += _rounded(places, 8)
        self._slots = self._part(at, 8 * _SLOT_WORDS * SLOTS * places).cast("Q")
        at = _rounded(at + 8 * _SLOT_WORDS * SLOTS * places, _PAGE)
        self._room = self._part(at, ROOM * SLOTS * places)
        at += ROOM * SLOTS * places
        self.verdicts = self._part(at, 8 * VERDICT_WORDS * VERDICTS).cast("Q")

    @staticmethod
    def size(places: int) -> int:
        """How many bytes a board for so many `places` has."""
        slots = 2 * _rounded(places, 8) + 8 * _SLOT_WORDS * SLOTS * places
        front = _rounded(_HEADER + 8 * _COLUMNS * places + slots, _PAGE)
        return front + ROOM * SLOTS * places + 8 * VERDICT_WORDS * VERDICTS

    @staticmethod
    def places_in(mapping: mmap.mmap) -> int:
        """How many places a board has that another process made by `clear`."""
        return int.from_bytes(mapping[:8], "little")

    def clear(self) -> None:
        """Makes a new mapping an empty board."""
        self._mapping[:8] = self.places.to_bytes(8, "little")
        for place in range(self.places):
            self.costs[place] = math.inf

    def _part(self, at: int, size: int) -> memoryview:
        return self._whole[at : at + size]

    def word(self, place: int, slot: int) -> int:
        """An offer's number and its taker, or `OPEN` or `REVOKED`; 0 where there was no
        offer yet."""
        word: int = self._slots[(place * SLOTS + slot) * _SLOT_WORDS]
        return word

    def words(self, place: int) -> list[int]:
        """The `word` of every slot of a place."""
        first = place * SLOTS * _SLOT_WORDS
        words: list[int] = self._slots[first : first + SLOTS * _SLOT_WORDS : _SLOT_WORDS].tolist()
        return words

    def mark(self, place: int, slot: int, number: int, taker: int) -> None:
        """Settles an offer, in one store of its `word`."""
        self._slots[(place * SLOTS + slot) * _SLOT_WORDS] = number << 24 | taker

    def weight(self, place: int, slot: int) -> float:
        """The share of the tree in an offer, from 0 to 1, as `write` stored it."""
        return self._slots[(place * SLOTS + slot) * _SLOT_WORDS + 2] / (1 << 63)

    def read(self, place: int, slot: int) -> bytes:
        """The blob of an offer, copied."""
        at = place * SLOTS + slot
        return bytes(self._room[at * ROOM : at * ROOM + self._slots[at * _SLOT_WORDS + 1]])

    def write(self, place: int, slot: int, blob: bytes, weight: float) -> None:
        """Writes an offer into a slot; others see it when `mark` has marked it."""
        at = place * SLOTS + slot
        self._room[at * ROOM : at * ROOM + len(blob)] = blob
        self._slots[at * _SLOT_WORDS + 1] = len(blob)
        self._slots[at * _SLOT_WORDS + 2] = int(min(max(weight, 0.0), 1.0) * (1 << 63))

    def close(self) -> None:
        """Lets go of the mapping."""
        for name, part in list(vars(self).items()):
            # A mapping cannot be closed as long as a view of it exists
            if isinstance(part, memoryview):
                part.release()
                delattr(self, name)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
