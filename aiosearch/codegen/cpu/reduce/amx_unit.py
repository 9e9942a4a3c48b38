"""The AMX unit: its eight tile registers and their configuration.

One instruction takes sixteen rows of a factor, 32 elements of bf16 each, and 32 rows of the other,
sixteen columns each, and adds all their products to sixteen rows of sixteen sums. The rows of the
second factor lie by pairs, as for products of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, i64
from .accumulator_init import AccumulatorInit

AMX_ROWS, AMX_LANES, AMX_DEPTH = 16, 16, 32
"""Of sums in a tile, and how many products each takes up at once."""
AMX_TILES = 8
AMX_ROW_BYTES = 64
"""Of a row."""


def amx_tiles_needed(rows: int, vectors: int) -> int:
    """How many these sums need, with a part of each factor beside them."""
    down = -(-rows // AMX_ROWS)
    return down * vectors + down + 1


@dataclass(frozen=True)
class AmxTileAssignment:
    """Which tiles are what: sums come first, part of rows by part, then the factors."""

    rows: int
    vectors: int

    @property
    def heights(self) -> tuple[int, ...]:
        """The rows of each part."""
        return tuple(min(AMX_ROWS, self.rows - at) for at in range(0, self.rows, AMX_ROWS))

    def sums(self, part: int, vector: int) -> int:
        return part * self.vectors + vector

    def shared(self, part: int) -> int:
        return len(self.heights) * self.vectors + part

    def moving(self, vector: int) -> int:
        """By turns one of the tiles that are left."""
        first = self.shared(len(self.heights))
        return first + vector % (AMX_TILES - first)

    @property
    def rows_of_tiles(self) -> tuple[int, ...]:
        found = [AMX_ROWS] * AMX_TILES
        for part, height in enumerate(self.heights):
            for tile in (self.shared(part), *(self.sums(part, at) for at in range(self.vectors))):
                found[tile] = height
        return tuple(found)


class AmxUnit:
    """For one kernel. It is set once, and set anew only for blocks whose tiles have other rows."""

    def __init__(self, writer: FunctionBuilder) -> None:
        self._writer = writer
        self._usual: tuple[int, ...] = ()
        """The rows of tiles at most times; none before the first block."""

    def begin(self, setting: AmxTileAssignment, starts: AccumulatorInit | None = None) -> None:
        """Has the tiles ready, and the sums zero, or what they start with."""
        rows = setting.rows_of_tiles
        if not self._usual:
            self._usual = rows
            self._writer.first.append(_set(self._named(rows)))
        if rows != self._usual:
            self._writer.say(_set(self._named(rows)))
        for part in range(len(setting.heights)):
            for vector in range(setting.vectors):
                tile = setting.sums(part, vector)
                if starts is None:
                    self._do("tilezero", f"i8 {tile}")
                else:
                    self.load(tile, starts.at(part * AMX_ROWS, vector * AMX_LANES), starts.stride)

    def end(self, setting: AmxTileAssignment) -> None:
        """As it usually is."""
        if setting.rows_of_tiles != self._usual:
            self._writer.say(_set(self._named(self._usual)))

    def load(self, tile: int, pointer: LlvmValue, stride: int) -> None:
        """Rows that are so many bytes apart."""
        self._do("tileloadd64", f"i8 {tile}", str(pointer), f"i64 {stride}")

    def multiply(self, sums: int, shared: int, moving: int) -> None:
        self._do("tdpbf16ps", f"i8 {sums}", f"i8 {shared}", f"i8 {moving}")

    def store(self, tile: int) -> None:
        """To where `row` finds it."""
        pointer = self._at(tile * AMX_ROWS * AMX_ROW_BYTES)
        self._do("tilestored64", f"i8 {tile}", str(pointer), f"i64 {AMX_ROW_BYTES}")

    def row(self, tile: int, number: LlvmInteger) -> LlvmValue:
        """Of a tile of sums that was stored."""
        offset = self._writer.multiply(number, AMX_ROW_BYTES)
        pointer = self._at(self._writer.add(offset, tile * AMX_ROWS * AMX_ROW_BYTES))
        text = f"load <{AMX_LANES} x float>, ptr {pointer.text}, align {AMX_ROW_BYTES}"
        return self._writer.new(text, "float", AMX_LANES)

    def leave(self) -> None:
        """From then on, the system has no tiles to keep."""
        if self._usual:
            self._do("tilerelease")

    def _named(self, rows: tuple[int, ...]) -> str:
        """What the instruction wants to know: bytes of a row by tile, and then the rows."""
        name = f"@tiles.{'.'.join(map(str, rows))}"
        content = bytes([1, *[0] * 15, *[AMX_ROW_BYTES, 0] * AMX_TILES, *[0] * 16, *rows]).ljust(
            64, b"\0"
        )
        text = "".join(f"\\{one:02x}" for one in content)
        declared = self._writer.declared
        declared.add(f'{name} = private unnamed_addr constant [64 x i8] c"{text}", align 64')
        declared.add("declare void @llvm.x86.ldtilecfg(ptr)")
        return name

    def _do(self, name: str, *arguments: str) -> None:
        self._writer.does(f"llvm.x86.{name}", arguments)

    def _at(self, offset: LlvmInteger) -> LlvmValue:
        room = self._writer.room("sums", AMX_TILES * AMX_ROWS * AMX_ROW_BYTES)
        return self._writer.pure(f"getelementptr i8, {room}, {i64(offset)}", "ptr")


def _set(name: str) -> str:
    return f"call void @llvm.x86.ldtilecfg(ptr {name})"
