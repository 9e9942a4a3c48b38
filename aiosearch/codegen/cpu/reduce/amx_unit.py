"""The AMX unit: its eight tile registers and their configuration.

`tdpbf16ps` multiplies 16 rows of 32 bf16 by 32 rows of 16 columns, in pairs, and adds to 16 rows of
16 f32 sums. A tile register has up to 16 rows of 64 bytes; `ldtilecfg` says how many rows each of
the eight has, from 64 bytes of memory: a palette number at byte 0, the bytes of a row as 16-bit
numbers from byte 16, and the rows as bytes from byte 48.

Example: sums of 20 rows by 2 vectors are parts of 16 and 4 rows. Tiles 0 and 1 are sums of the
first part, 2 and 3 of the second, 4 and 5 the parts of the one operand, and 6 and 7 take vectors of
the other by turns. The rows are 16, 16, 4, 4, 16, 4, 16, 16.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, i64
from .accumulator_init import AccumulatorInit

AMX_ROWS, AMX_LANES, AMX_DEPTH = 16, 16, 32
"""Rows and columns of sums in a tile, and products that each sum takes at once."""
AMX_TILES = 8
"""Tile registers."""
AMX_ROW_BYTES = 64
"""Bytes of a tile's row."""


def amx_tiles_needed(rows: int, vectors: int) -> int:
    """Tile registers for sums of so many rows and vectors, a part of each row operand and one
    vector of the other."""
    down = -(-rows // AMX_ROWS)
    return down * vectors + down + 1


@dataclass(frozen=True)
class AmxTileAssignment:
    """The use of each tile register: sums first, part by part, then the parts of the row operand,
    then vectors."""

    rows: int
    vectors: int

    @property
    def heights(self) -> tuple[int, ...]:
        """The rows of each part."""
        return tuple(min(AMX_ROWS, self.rows - at) for at in range(0, self.rows, AMX_ROWS))

    def sums(self, part: int, vector: int) -> int:
        """The tile of the sums of a `part` and vector."""
        return part * self.vectors + vector

    def shared(self, part: int) -> int:
        """The tile of a `part` of the row operand."""
        return len(self.heights) * self.vectors + part

    def moving(self, vector: int) -> int:
        """The tile of a `vector`, by turns one of those that are left."""
        # With two tiles left, a load of one vector overlaps products with the other.
        first = self.shared(len(self.heights))
        return first + vector % (AMX_TILES - first)

    @property
    def rows_of_tiles(self) -> tuple[int, ...]:
        """The rows of each of the eight tile registers."""
        heights = [AMX_ROWS] * AMX_TILES
        for part, height in enumerate(self.heights):
            for tile in (self.shared(part), *(self.sums(part, at) for at in range(self.vectors))):
                heights[tile] = height
        return tuple(heights)


class AmxUnit:
    """Prints tile instructions of one kernel. The unit is configured once, and anew only for
    register tiles with other rows."""

    def __init__(self, writer: FunctionBuilder) -> None:
        self._writer = writer
        self._default_rows: tuple[int, ...] = ()
        """The rows of tiles at most times; none before the first block."""

    def begin(self, setting: AmxTileAssignment, starts: AccumulatorInit | None = None) -> None:
        """Prints the configuration if it changes, and zero sums, or those of `starts`."""
        rows = setting.rows_of_tiles
        # The first configuration is set in the entry block of the function, so no block sets it
        # again unless its register tile has other rows.
        if not self._default_rows:
            self._default_rows = rows
            self._writer.first.append(_set(self._configuration(rows)))
        if rows != self._default_rows:
            self._writer.emit(_set(self._configuration(rows)))
        for part in range(len(setting.heights)):
            for vector in range(setting.vectors):
                tile = setting.sums(part, vector)
                if starts is None:
                    self._emit("tilezero", f"i8 {tile}")
                else:
                    self.load(tile, starts.at(part * AMX_ROWS, vector * AMX_LANES), starts.stride)

    def end(self, setting: AmxTileAssignment) -> None:
        """Prints the default configuration if `begin` has changed it."""
        if setting.rows_of_tiles != self._default_rows:
            self._writer.emit(_set(self._configuration(self._default_rows)))

    def load(self, tile: int, pointer: LlvmValue, stride: int) -> None:
        """Loads a tile of rows that are `stride` bytes apart."""
        self._emit("tileloadd64", f"i8 {tile}", str(pointer), f"i64 {stride}")

    def multiply(self, sums: int, shared: int, moving: int) -> None:
        """Adds the product of two tiles to a tile of `sums`."""
        self._emit("tdpbf16ps", f"i8 {sums}", f"i8 {shared}", f"i8 {moving}")

    def store(self, tile: int) -> None:
        """Stores a tile of sums where `row` finds it."""
        pointer = self._at(tile * AMX_ROWS * AMX_ROW_BYTES)
        self._emit("tilestored64", f"i8 {tile}", str(pointer), f"i64 {AMX_ROW_BYTES}")

    def row(self, tile: int, number: LlvmInteger) -> LlvmValue:
        """A row of a stored tile of sums."""
        # AMX cannot move a row to a vector register; it goes through memory.
        offset = self._writer.multiply(number, AMX_ROW_BYTES)
        pointer = self._at(self._writer.add(offset, tile * AMX_ROWS * AMX_ROW_BYTES))
        text = f"load <{AMX_LANES} x float>, ptr {pointer.text}, align {AMX_ROW_BYTES}"
        return self._writer.new(text, "float", AMX_LANES)

    def leave(self) -> None:
        """Prints the release of all tiles, after which the operating system has none to save."""
        if self._default_rows:
            self._emit("tilerelease")

    def _configuration(self, rows: tuple[int, ...]) -> str:
        """Declares the 64 bytes that `ldtilecfg` takes for these rows, and returns their name."""
        name = f"@tiles.{'.'.join(map(str, rows))}"
        # Palette 1, zeros up to byte 16, row bytes of eight tiles as 16-bit numbers, zeros up to
        # byte 48, rows.
        content = bytes([1, *[0] * 15, *[AMX_ROW_BYTES, 0] * AMX_TILES, *[0] * 16, *rows]).ljust(
            64, b"\0"
        )
        text = "".join(f"\\{byte:02x}" for byte in content)
        declared = self._writer.declared
        declared.add(f'{name} = private unnamed_addr constant [64 x i8] c"{text}", align 64')
        declared.add("declare void @llvm.x86.ldtilecfg(ptr)")
        return name

    def _emit(self, name: str, *arguments: str) -> None:
        """Prints a tile instruction."""
        self._writer.call_void(f"llvm.x86.{name}", arguments)

    def _at(self, offset: LlvmInteger) -> LlvmValue:
        """An address in the memory where tiles of sums are stored."""
        room = self._writer.stack_memory("sums", AMX_TILES * AMX_ROWS * AMX_ROW_BYTES)
        return self._writer.pure(f"getelementptr i8, {room}, {i64(offset)}", "ptr")


def _set(name: str) -> str:
    """The instruction that loads a configuration."""
    return f"call void @llvm.x86.ldtilecfg(ptr {name})"
