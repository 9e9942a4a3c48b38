"""Reads and writes clusters as the JSON of the hardware description language of Pattern-OPT's
tools.

Every number there is a string, and keys have hyphens. A node, device or cache group may be
`{"template": "relative/path.json"}`, with keys of its own beside it that take precedence. In,
shortened:

    {"topology": "ring", "connectivity-bandwidth": [["0"]], "connectivity-latency": [["0"]],
     "nodes": [{"identifier": "n1", "type": "numa", ..., "devices": [{"template": "cpu.json"}]}]}

What is missing, of another type, or of another size than the matrix beside it is a `ClusterError`
that names the path to it, as in `nodes[0].devices[1].cache-group[0].caches[2].size`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..documents import Document, JsonValue
from ..folders import replace_file
from .clusters import CacheGroup, CacheLevel, Cluster, ComputeDevice, Node, ProcessorKind
from .errors import ClusterError

PartT = TypeVar("PartT")


def read_cluster(path: str | Path) -> Cluster:
    """Reads a file and the templates that it names, each relative to the file that names it."""
    path = Path(path)
    description = _load(path)
    if set(description) == {"network"} and isinstance(description["network"], dict):
        description = description["network"]
    return _cluster(_ClusterReader(description, path, ""))


def write_cluster(cluster: Cluster, path: str | Path) -> None:
    """Writes the whole cluster into one file, without templates, in one step."""
    text = json.dumps(describe_cluster(cluster), indent=2)
    replace_file(Path(path), (text + "\n").encode())


def _load(path: Path) -> Document:
    try:
        description = json.loads(path.read_text())
    except OSError as error:
        reason = error.strerror or error
        raise ClusterError(f"cannot read the cluster file {path}: {reason}") from None
    except ValueError as error:
        raise ClusterError(f"the cluster file {path} is not JSON: {error}") from None
    if not isinstance(description, dict):
        raise ClusterError(f"the cluster file {path} must hold a JSON object")
    return description


class _ClusterReader:
    """An object of a file, with the path to it for messages."""

    def __init__(
        self, fields: Document, file: Path, path: str, through: tuple[Path, ...] = ()
    ) -> None:
        self.path = path
        self.file = file
        self.fields: Document
        template = fields.get("template")
        if template is not None:
            if not isinstance(template, str):
                self.fail("template", f"must be the path of a file, not {template!r}")
            source = (file.parent / template).resolve()
            if source in through:
                self.fail("template", f"leads back to {source}; a template cannot use itself")
            base = _ClusterReader(_load(source), source, path, (*through, source))
            fields = {**base.fields, **fields}
            # Templates that the template names for its parts are relative to the template.
            self.file = base.file
        self.fields = fields

    def fail(self, key: str, reason: str) -> JsonValue:
        where = f"{self.path}.{key}" if self.path else key
        raise ClusterError(f"{self.file}: {where} {reason}")

    def value(self, key: str) -> JsonValue:
        if key not in self.fields:
            self.fail(key, "is missing; add it to the file or to the template")
        return self.fields[key]

    def text(self, key: str, default: str | None = None) -> str:
        value = self.value(key) if default is None else self.fields.get(key, default)
        return value if isinstance(value, str) else str(self.fail(key, "must be a text"))

    def number(self, key: str, default: float | None = None) -> float:
        value = self.value(key) if default is None else self.fields.get(key, default)
        return self._number(key, value)

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if value != int(value) or value < 1:
            self.fail(key, f"must be a whole number above 0, not {value:g}")
        return int(value)

    def positive(self, key: str, default: float | None = None) -> float:
        value = self.number(key, default)
        if value <= 0:
            self.fail(key, f"must be above 0, not {value:g}")
        return value

    def _number(self, key: str, value: JsonValue) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            self.fail(key, f"must be a number, not {value!r}")
        if not math.isfinite(number) or number < 0:
            self.fail(key, f"must be a number of 0 or more, not {value!r}")
        return number

    def matrix(self, key: str, size: int, of: str) -> tuple[tuple[float, ...], ...]:
        rows = self.value(key)
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            self.fail(key, "must be a list of rows, each a list of numbers")
        shape = [len(row) for row in rows]
        if shape != [size] * size:
            self.fail(
                key,
                f"must have {size} rows of {size} numbers, one for each of the {of}, but has "
                f"rows of {shape}",
            )
        return tuple(
            tuple(
                self._number(f"{key}[{row}][{column}]", value) for column, value in enumerate(line)
            )
            for row, line in enumerate(rows)
        )

    def parts(self, key: str, build: Callable[[_ClusterReader], PartT]) -> tuple[PartT, ...]:
        listed = self.value(key)
        if not isinstance(listed, list) or not listed:
            self.fail(key, "must be a list of at least one")
        prefix = f"{self.path}.{key}" if self.path else key
        built = []
        for position, fields in enumerate(listed):
            if not isinstance(fields, dict):
                self.fail(f"{key}[{position}]", f"must be an object, not {fields!r}")
            built.append(build(_ClusterReader(fields, self.file, f"{prefix}[{position}]")))
        return tuple(built)


def _cluster(reader: _ClusterReader) -> Cluster:
    nodes = reader.parts("nodes", _node)
    return Cluster(
        topology=reader.text("topology", ""),
        bandwidth=reader.matrix("connectivity-bandwidth", len(nodes), "nodes"),
        latency=reader.matrix("connectivity-latency", len(nodes), "nodes"),
        nodes=nodes,
    )


def _node(reader: _ClusterReader) -> Node:
    devices = reader.parts("devices", _device)
    return Node(
        identifier=reader.text("identifier"),
        address=reader.text("address", ""),
        kind=reader.text("type", "numa"),
        bandwidth=reader.matrix("connectivity-bandwidth", len(devices), "devices"),
        latency=reader.matrix("connectivity-latency", len(devices), "devices"),
        devices=devices,
    )


def _device(reader: _ClusterReader) -> ComputeDevice:
    kind = reader.text("type")
    if kind not in ProcessorKind.__members__:
        reader.fail("type", f"must be CPU or GPU, not {kind!r}")
    return ComputeDevice(
        identifier=reader.text("identifier"),
        kind=ProcessorKind(kind),
        latency=reader.number("latency"),
        bandwidth=reader.positive("bandwidth"),
        max_bandwidth=reader.positive("max-bandwidth"),
        size=reader.positive("size"),
        groups=reader.parts("cache-group", _group),
    )


def _group(reader: _ClusterReader) -> CacheGroup:
    return CacheGroup(
        identifier=reader.text("identifier"),
        cores=reader.whole("cores"),
        frequency=reader.positive("frequency"),
        arithmetic_units=reader.positive("arithmetic-units"),
        vectorization=reader.text("vectorization", "None"),
        warp_size=reader.whole("warp-size", 1),
        hyper_threads=reader.whole("hyper-threads", 1),
        caches=reader.parts("caches", _cache),
    )


def _cache(reader: _ClusterReader) -> CacheLevel:
    return CacheLevel(reader.number("latency"), reader.number("bandwidth"), reader.positive("size"))


def describe_cluster(cluster: Cluster) -> Document:
    """Gives the JSON object of a cluster, every number as a string."""
    return {
        "topology": cluster.topology,
        "connectivity-bandwidth": _written(cluster.bandwidth),
        "connectivity-latency": _written(cluster.latency),
        "nodes": [
            {
                "identifier": node.identifier,
                "address": node.address,
                "type": node.kind,
                "connectivity-bandwidth": _written(node.bandwidth),
                "connectivity-latency": _written(node.latency),
                "devices": [_describe_device(device) for device in node.devices],
            }
            for node in cluster.nodes
        ],
    }


def _describe_device(device: ComputeDevice) -> Document:
    return {
        "identifier": device.identifier,
        "type": device.kind.value,
        "latency": _number_text(device.latency),
        "bandwidth": _number_text(device.bandwidth),
        "max-bandwidth": _number_text(device.max_bandwidth),
        "size": _number_text(device.size),
        "cache-group": [
            {
                "identifier": group.identifier,
                "cores": str(group.cores),
                "frequency": _number_text(group.frequency),
                "arithmetic-units": _number_text(group.arithmetic_units),
                "vectorization": group.vectorization,
                "warp-size": str(group.warp_size),
                "hyper-threads": str(group.hyper_threads),
                "caches": [
                    {
                        "latency": _number_text(cache.latency),
                        "bandwidth": _number_text(cache.bandwidth),
                        "size": _number_text(cache.size),
                    }
                    for cache in group.caches
                ],
            }
            for group in device.groups
        ],
    }


def _written(matrix: tuple[tuple[float, ...], ...]) -> list[list[str]]:
    return [[_number_text(value) for value in row] for row in matrix]


def _number_text(value: float) -> str:
    """Writes a number so that it is read again exactly, `24` for 24.0."""
    return str(int(value)) if value == int(value) else repr(value)
