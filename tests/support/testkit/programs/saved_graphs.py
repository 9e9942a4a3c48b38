"""Graphs as Mirage saves them, written down compactly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
"""A tensor or an operator, as JSON."""
Axes: TypeAlias = Sequence[int]
"""A map or a grid: x, y, z."""


class Saved:
    """Builds one graph; the shapes are those that the file is to record."""

    def __init__(self, data_type: int = 941, accumulator: str = "tb_forloop_accum_") -> None:
        self.nodes: list[Record] = []
        self.accumulator = accumulator
        """What the names of accumulators start with; empty where there are none yet."""
        self._data_type = data_type
        self._guids = itertools.count(10_000_000)

    def input(self, *dim: int) -> Record:
        found = self.tensor(dim)
        self.nodes.append(_node("kn_input_op", [], [found], input_map=_axes((-1, -1, -1))))
        return found

    def op(self, name: str, *operands: Record, dim: Sequence[int], **more: Any) -> Record:
        found = self.tensor(dim)
        self.nodes.append(_node(name, operands, [found], **more))
        return found

    def output(self, *tensors: Record) -> None:
        for one in tensors:
            self.nodes.append(_node("kn_output_op", [one], [], output_map=_axes((-1, -1, -1))))

    def block(self, grid: Axes, range: int = 1) -> SavedBlock:
        return SavedBlock(self, grid, range)

    def tensor(self, dim: Sequence[int], after: bool | None = None) -> Record:
        padded = [*dim, 0, 0, 0, 0][:4]
        found: Record = {
            "data_type": self._data_type,
            "dim": padded,
            "guid": next(self._guids),
            "layout": "DmemRowMajor",
            "num_dims": len(dim),
        }
        if after is not None:
            found |= {"after_accum": after, "smem_offset": 0}
        return found

    def json(self) -> bytes:
        """A file with this graph alone."""
        return json.dumps([self.nodes]).encode()


class SavedBlock:
    """Builds a block graph of a custom kernel."""

    def __init__(self, graph: Saved, grid: Axes, range: int) -> None:
        self._graph = graph
        self._inputs: list[Record] = []
        self._stored: list[Record] = []
        self._body: Record = {
            "block_dim": _axes((128, 1, 1)),
            "forloop_range": range,
            "graph_level": "thread_block_graph",
            "grid_dim": _axes(grid),
            "operators": [],
            "reduction_dimx": 64,
        }

    def load(self, source: Record, map: Axes, loop: int, dim: Sequence[int]) -> Record:
        self._inputs.append(source)
        more = {"dtensor": source, "forloop_dim": loop, "input_map": _axes(map)}
        return self._add("tb_input_op", [], dim, False, **more)

    def op(self, name: str, *operands: Record, dim: Sequence[int], **more: Any) -> Record:
        after = any(operand.get("after_accum") for operand in operands)
        return self._add(name, operands, dim, after, **more)

    def accumulate(self, kind: str, tile: Record, dim: Sequence[int]) -> Record:
        return self._add(f"{self._graph.accumulator}{kind}_op", [tile], dim, True)

    def store(self, tile: Record, map: Axes, dim: Sequence[int]) -> Record:
        found = self._graph.tensor(dim)
        more = {"dtensor": found, "output_map": _axes(map)}
        sums = [] if self._graph.accumulator else [self._graph.tensor(tile["dim"])]
        self._body["operators"].append(_node("tb_output_op", [tile], sums, **more))
        self._stored.append(found)
        return found

    def close(self) -> None:
        """Adds the kernel to its graph, after its last operator."""
        self._graph.nodes.append(
            _node("kn_customized_op", self._inputs, self._stored, bgraph=self._body)
        )

    def _add(
        self, name: str, operands: Sequence[Record], dim: Sequence[int], after: bool, **more: Any
    ) -> Record:
        found = self._graph.tensor(dim, after if self._graph.accumulator else None)
        self._body["operators"].append(_node(name, operands, [found], **more))
        return found


def _node(name: str, inputs: Sequence[Record], outputs: Sequence[Record], **more: Any) -> Record:
    return {"op_type": name, "input_tensors": [*inputs], "output_tensors": [*outputs], **more}


def _axes(values: Axes) -> Record:
    return dict(zip("xyz", values, strict=True))


NONE = (-1, -1, -1)


def split_kv() -> Saved:
    """Attention over keys split among blocks: two kernels, the second folds 64 columns."""
    graph = Saved(921, "tb_accum_")
    q, k, v = graph.input(2, 256, 64), graph.input(2, 64, 4096), graph.input(2, 4096, 64)
    block = graph.block((2, 8, 16), 4)
    a = block.load(q, (0, -1, 1), -1, (1, 16, 64))
    b = block.load(k, (0, 2, -1), 2, (1, 64, 128))
    c = block.load(v, (0, 1, -1), 1, (1, 128, 64))
    e = block.op("tb_exp_op", block.op("tb_matmul_op", a, b, dim=(1, 16, 128)), dim=(1, 16, 128))
    weights = block.accumulate("nored", e, (1, 16, 128))
    values = block.accumulate("nored", block.op("tb_matmul_op", e, c, dim=(1, 16, 64)), (1, 16, 64))
    total = block.store(weights, (0, 2, 1), (2, 256, 1024))
    value = block.store(values, (0, 2, 1), (2, 256, 512))
    block.close()
    block = graph.block((2, 16, 1), 4)
    total = block.accumulate(
        "red_ld_sum", block.load(total, (0, 1, -1), 2, (1, 16, 256)), (1, 16, 1)
    )
    value = block.accumulate(
        "redtox_ld_sum", block.load(value, (0, 1, -1), 2, (1, 16, 128)), (1, 16, 64)
    )
    found = block.store(
        block.op("tb_div_op", value, total, dim=(1, 16, 64)), (0, 1, -1), (2, 256, 64)
    )
    block.close()
    graph.output(found)
    return graph


def many_heads() -> Saved:
    """Attention with its matmuls as kernels of their own."""
    graph = Saved(921, "tb_accum_")
    q, k, v = graph.input(8, 16, 64), graph.input(8, 64, 512), graph.input(8, 512, 64)
    e = graph.op("kn_exp_op", graph.op("kn_matmul_op", q, k, dim=(8, 16, 512)), dim=(8, 16, 512))
    value = graph.op("kn_matmul_op", e, v, dim=(8, 16, 64))
    block = graph.block((8, 2, 1))
    total = block.accumulate("red_ld_sum", block.load(e, (0, 1, -1), -1, (1, 8, 512)), (1, 8, 1))
    value = block.accumulate("nored", block.load(value, (0, 1, -1), -1, (1, 8, 64)), (1, 8, 64))
    found = block.store(
        block.op("tb_div_op", value, total, dim=(1, 8, 64)), (0, 1, -1), (8, 16, 64)
    )
    block.close()
    graph.output(found)
    return graph


def without_accumulators() -> Saved:
    """The oldest kind of file: stores add up over the loop, and no output is marked."""
    graph = Saved(921, "")
    q, k, v = graph.input(2, 256, 64), graph.input(2, 64, 4096), graph.input(2, 4096, 64)
    block = graph.block((2, 16, 1), 16)
    a = block.load(q, (0, 1, -1), -1, (1, 16, 64))
    b = block.load(k, (0, -1, -1), 2, (1, 64, 256))
    c = block.load(v, (0, -1, -1), 1, (1, 256, 64))
    e = block.op("tb_exp_op", block.op("tb_matmul_op", a, b, dim=(1, 16, 256)), dim=(1, 16, 256))
    total = block.op("tb_reduction_2_op", e, dim=(1, 16, 1), reduce_dim=2, reduce_size=1)
    value = block.op("tb_matmul_op", e, c, dim=(1, 16, 64))
    total = block.store(total, (0, 1, -1), (2, 256, 1))
    value = block.store(value, (0, 1, -1), (2, 256, 64))
    block.close()
    graph.op("kn_div_op", value, total, dim=(2, 256, 64))
    return graph


def normalised(data_type: int = 940) -> Saved:
    """A linear layer after normalisation, in one kernel, the division last."""
    graph = Saved(data_type)
    x, w = graph.input(1, 448), graph.input(448, 1024)
    block = graph.block((16, 1, 1), 4)
    a = block.load(x, NONE, 1, (1, 112))
    b = block.load(w, (1, -1, -1), 0, (112, 64))
    scale = block.accumulate("red_ld_rms", a, (1, 1))
    value = block.accumulate("nored", block.op("tb_matmul_op", a, b, dim=(1, 64)), (1, 64))
    found = block.store(block.op("tb_div_op", value, scale, dim=(1, 64)), (1, -1, -1), (1, 1024))
    block.close()
    graph.output(found)
    return graph


def gated(last: str = "kn_mul_op", swapped: bool = False, reverse: bool = False) -> Saved:
    """A gated MLP whose last product is a kernel of its own, or with silu on the other side."""
    graph = Saved()
    x, w1, w2 = graph.input(8, 256), graph.input(256, 512), graph.input(256, 512)
    block = graph.block((16, 1, 1), 4)
    a = block.load(x, NONE, 1, (8, 64))
    b = block.load(w1, (1, -1, -1), 0, (64, 32))
    c = block.load(w2, (1, -1, -1), 0, (64, 32))
    gate = block.accumulate("nored", block.op("tb_matmul_op", a, b, dim=(8, 32)), (8, 32))
    up = block.accumulate("nored", block.op("tb_matmul_op", a, c, dim=(8, 32)), (8, 32))
    if swapped:
        gate, up = up, gate
    gate = block.op("tb_silu_op", gate, dim=(8, 32))
    up = block.store(up, (1, -1, -1), (8, 512))
    gate = block.store(gate, (1, -1, -1), (8, 512))
    block.close()
    factors = (up, gate) if reverse else (gate, up)
    graph.output(graph.op(last, *factors, dim=(8, 512)))
    return graph


def merged_lora() -> Saved:
    """An adapter by one matmul of tensors side by side, [X|X·A]·[W;B]."""
    graph = Saved()
    x, w, a, b = (
        graph.input(16, 256),
        graph.input(256, 512),
        graph.input(256, 16),
        graph.input(16, 512),
    )
    block = graph.block((8, 1, 1))
    x = block.load(x, NONE, -1, (16, 256))
    w = block.load(w, (1, -1, -1), -1, (256, 64))
    a = block.load(a, NONE, -1, (256, 16))
    b = block.load(b, (1, -1, -1), -1, (16, 64))
    low = block.op("tb_matmul_op", x, a, dim=(16, 16))
    found = block.op("tb_concat_then_matmul_op", x, low, w, b, dim=(16, 64))
    found = block.store(block.accumulate("nored", found, (16, 64)), (1, -1, -1), (16, 512))
    block.close()
    graph.output(found)
    return graph
