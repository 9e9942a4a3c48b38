from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import testkit.programs.saved_graphs as saved_graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from testkit.programs.saved_graphs import Record, Saved

from aiosearch.tensor import FormatError, ShapeError, UnknownOperator, apply, tensor
from aiosearch.tensor.evaluation import evaluate
from aiosearch.tensor.files import from_json, to_json
from aiosearch.tensor.floats import Floats
from aiosearch.tensor.mirage import InputPairing, MirageGraph, load_mugraphs, pairs, read_mugraph
from aiosearch.tensor.programs import BUILTINS
from aiosearch.tensor.referee import run
from aiosearch.tensor.text import parse, write

DATA = Path(__file__).parents[1] / "data" / "mirage"
FILES = ("lora_bs1", "norm_transformer_bs1", "qknorm_gqa_bs1_three_wrong")


def graphs(data: bytes) -> list[MirageGraph]:
    found = load_mugraphs(data)
    for graph in found:
        assert isinstance(graph, MirageGraph), graph
    return [graph for graph in found if isinstance(graph, MirageGraph)]


def only(saved: Saved) -> MirageGraph:
    (graph,) = graphs(saved.json())
    return graph


def refusal(data: bytes) -> FormatError:
    """Why the only graph of a file cannot be read."""
    (error,) = load_mugraphs(data)
    assert isinstance(error, FormatError)
    return error


def same(pair: InputPairing) -> bool:
    draw, programs = np.random.default_rng(0), (pair.reference, pair.graph)
    inputs = [draw.standard_normal(x.shape) for x in pair.reference.inputs]
    left, right = (evaluate(program, Floats(np.float64), inputs) for program in programs)
    return all(np.allclose(a, b, rtol=1e-9) for a, b in zip(left, right, strict=True))


def accepted(graph: MirageGraph, name: str) -> list[bool]:
    """For each way to order the graph's inputs, whether it is the built-in program."""
    return [same(pair) for pair in pairs(graph, BUILTINS[name])]


@pytest.mark.parametrize(
    ("file", "name", "right"),
    [
        ("lora_bs1", "lora", [[True]] * 4),
        ("norm_transformer_bs1", "ntrans", [[False, False, True, False, False, False]] * 9),
    ],
)
def test_saved_graphs(file: str, name: str, right: list[list[bool]]) -> None:
    """Each of these graphs is its program, for one order of its inputs, which is found."""
    found = graphs((DATA / f"{file}.json").read_bytes())
    assert [accepted(graph, name) for graph in found] == right


def test_wrong_graphs() -> None:
    """The attention that Mirage's own test accepted is read as what it is, and is none."""
    found = graphs((DATA / "qknorm_gqa_bs1_three_wrong.json").read_bytes())
    for graph in found:
        (pair,) = pairs(graph, BUILTINS["qk_norm_v"])
        assert not same(pair)
        assert pair.order == (0, 1, 2)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (saved_graphs.split_kv, "gqa"),
        (saved_graphs.many_heads, "gqa"),
        (saved_graphs.without_accumulators, "gqa"),
        (saved_graphs.normalised, "rms_norm"),
        (saved_graphs.gated, "gated_mlp"),
        (saved_graphs.merged_lora, "lora"),
    ],
)
def test_kinds_of_files(make: Callable[[], Saved], name: str) -> None:
    """Files of every age are read: accumulators under both names, or none, and old type codes."""
    assert any(accepted(only(make()), name))


def test_checkpoint() -> None:
    """A checkpoint's graphs are read, and so is a graph in no list."""
    nodes = saved_graphs.gated().nodes
    (graph,) = graphs(json.dumps({"config": {}, "generated_graphs": [nodes]}).encode())
    (bare,) = graphs(json.dumps(nodes).encode())
    assert graph.program() == bare.program() == read_mugraph(nodes)


def test_element_types() -> None:
    """The element type is that of the file, and the program gets it too."""
    for code, dtype in ((921, "f16"), (941, "f16"), (940, "bf16"), (950, "f32"), (960, "f64")):
        (pair,) = pairs(only(saved_graphs.normalised(code)), BUILTINS["rms_norm"])
        assert {x.dtype for x in (*pair.reference.inputs, *pair.graph.outputs)} == {dtype}
    assert "unknown element type 930" in str(refusal(saved_graphs.normalised(930).json()))


@pytest.mark.parametrize(
    ("name", "operator", "arity"),
    [
        *((name, name, 1) for name in ("exp", "square", "sqrt", "silu", "gelu", "relu")),
        *((name, name, 2) for name in ("add", "mul", "div", "pow")),
        ("rms_norm", "rms_norm", 1),
    ],
)
def test_operators(name: str, operator: str, arity: int) -> None:
    """Operators that kernels and blocks share are the language's own."""
    graph = Saved()
    operands = [graph.input(4, 8) for _ in range(arity)]
    graph.output(graph.op(f"kn_{name}_op", *operands, dim=(4, 8)))
    block = graph.block((4, 1, 1))
    tiles = [block.load(one, (0, -1, -1), -1, (1, 8)) for one in operands]
    tile = block.op(f"tb_{name}_op", *tiles, dim=(1, 8))
    found = block.store(block.accumulate("nored", tile, (1, 8)), (0, -1, -1), (4, 8))
    block.close()
    graph.output(found)
    program = only(graph).program()
    inputs = [np.abs(np.random.default_rng(1).standard_normal((4, 8))) for _ in operands]
    assert program.outputs[0] is apply(operator, *program.inputs)
    kernel, fused = run(program, inputs)
    assert np.allclose(kernel, fused)


def test_reductions() -> None:
    """Reductions add up to the recorded size, each element what is a whole number of sizes off."""
    graph = Saved()
    x = graph.input(2, 6, 128)
    graph.output(graph.op("kn_reduction_1_op", x, dim=(2, 1, 128)))
    graph.output(graph.op("kn_reduction_2_op", x, dim=(2, 6, 32)))
    block = graph.block((2, 1, 1))
    tile = block.load(x, (0, -1, -1), -1, (1, 6, 128))
    rows = block.op("tb_reduction_1_op", tile, dim=(1, 1, 128))
    columns = block.op("tb_reduction_2_to_dimx_op", rows, dim=(1, 1, 64))
    both = block.op("tb_concat_2_op", rows, columns, dim=(1, 1, 192))
    found = block.store(block.accumulate("nored", both, (1, 1, 192)), (0, -1, -1), (2, 1, 192))
    block.close()
    graph.output(found)
    value = np.random.default_rng(2).standard_normal((2, 6, 128))
    first, second, third = run(only(graph).program(), [value])
    rows_ = value.sum(axis=1, keepdims=True)
    assert np.allclose(first, rows_)
    assert np.allclose(second, sum(value[..., at : at + 32] for at in range(0, 128, 32)))
    assert np.allclose(third, np.concatenate([rows_, rows_[..., :64] + rows_[..., 64:]], axis=2))


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        ("nored", lambda x: x[:, :16] + x[:, 16:]),
        ("red_ld_sum", lambda x: x.sum(1, keepdims=True)),
        ("red_ld_mean", lambda x: x.mean(1, keepdims=True)),
        ("red_ld_rms", lambda x: np.sqrt((x * x).mean(1, keepdims=True))),
    ],
)
@pytest.mark.parametrize("prefix", ["tb_accum_", "tb_forloop_accum_"])
def test_accumulators(kind: str, meaning: Callable[[Any], Any], prefix: str) -> None:
    """Accumulators add up over the loop, and over the last axis where their name says so."""
    graph = Saved(950, prefix)
    x = graph.input(4, 32)
    block = graph.block((2, 1, 1), 2)
    tile = block.load(x, (0, -1, -1), 1, (2, 16))
    width = 16 if kind == "nored" else 1
    found = block.store(block.accumulate(kind, tile, (2, width)), (0, -1, -1), (4, width))
    block.close()
    graph.output(found)
    value = np.random.default_rng(3).standard_normal((4, 32))
    assert np.allclose(run(only(graph).program(), [value])[0], meaning(value))


def unary(name: str, **more: Any) -> Saved:
    graph = Saved()
    graph.output(graph.op(name, graph.input(4, 8), dim=(4, 8), **more))
    return graph


def test_clamp() -> None:
    """A clamp needs its bounds, which Mirage does not save."""
    assert "kn_clamp_op: the file does not say" in str(refusal(unary("kn_clamp_op").json()))
    (output,) = only(unary("kn_clamp_op", min_val=-0.5, max_val=2.0)).program().outputs
    assert (output.parameter("low"), output.parameter("high")) == (-0.5, 2)


@pytest.mark.parametrize("name", ["kn_frobnicate_op", "kn_allreduce_op", "kn_tb_exp_op", "exp", ""])
def test_unknown_operator(name: str) -> None:
    """An operator that is not known is named."""
    error = refusal(unary(name).json())
    assert isinstance(error, UnknownOperator)
    assert error.name == name


def test_unknown_operator_of_a_block() -> None:
    """The same within a kernel."""
    data = saved_graphs.gated().json().replace(b"tb_silu_op", b"tb_accum_median_op")
    error = refusal(data)
    assert isinstance(error, UnknownOperator)
    assert error.name == "tb_accum_median_op"


def _records(value: Any) -> list[Record]:
    """Every tensor of a file, and every other object that something depends on."""
    if isinstance(value, list):
        return [found for one in value for found in _records(one)]
    if isinstance(value, dict):
        own = [value] if "guid" in value else []
        return own + [found for one in value.values() for found in _records(one)]
    return []


@pytest.mark.parametrize("file", FILES)
def test_every_shape_is_checked(file: str) -> None:
    """No recorded size can be changed unnoticed."""
    data = (DATA / f"{file}.json").read_bytes()
    count = len(_records(json.loads(data)[0]))
    assert count > 20
    for place in range(count):
        changed = json.loads(data)[:1]
        record = _records(changed)[place]
        record["dim"][record["num_dims"] - 1] *= 2
        assert isinstance(load_mugraphs(json.dumps(changed).encode())[0], FormatError)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"kn_input_op"', '"kn_output_op"', "tensor 10017615 is used before it is computed"),
        ('"guid":20046446,', '"guid":20046445,', "tensor 20046445 is computed twice"),
        ('"num_dims":2,"smem_offset":51200', '"num_dims":5,"smem_offset":51200', "5 axes of 4"),
        ('"x":64', '"x":63', "63 does not divide 4096"),
        ('"x":64', '"x":0', "grid [0, 1, 1]"),
        ('"after_accum":true', '"after_accum":false', "the other side of the loop's end"),
        ('"op_type":"tb_matmul_op"', '"op_type":"tb_exp_op"', "exp takes 1 operands, not 2"),
        ('"output_map":{"x":1', '"output_map":{"x":-1', "store over each other"),
        ('"output_map":{"x":1', '"output_map":{"x":7', "axis 7"),
        ('"input_map":{"x":1', '"input_map":{"x":0', "is recorded as"),
        ('"bgraph":', '"graph":', "no block graph"),
        ('"dtensor":', '"stensor":', "no dtensor"),
    ],
)
def test_what_is_wrong(old: str, new: str, told: str) -> None:
    """What is wrong with a graph is said, and where."""
    data = json.dumps(json.loads((DATA / "lora_bs1.json").read_bytes())[:1], separators=(",", ":"))
    assert old in data
    assert told in str(refusal(data.replace(old, new).encode()))


@pytest.mark.parametrize("data", [b"", b"nonsense", b"{}", b"7", b'"text"', b"[[[", b"\xff\xfe"])
def test_no_file_of_graphs(data: bytes) -> None:
    """What is no list of graphs is refused as a whole."""
    with pytest.raises(FormatError, match="not a file of Mirage's graphs"):
        load_mugraphs(data)


def test_no_graphs() -> None:
    """A file without graphs has none; a graph that computes nothing is refused."""
    assert load_mugraphs(b"[]") == []
    for data in (b"[[]]", b"[7]", b"[null]", b"[[7]]"):
        refusal(data)
    with pytest.raises(FormatError):
        read_mugraph({"op_type": "kn_input_op"})


def test_one_bad_graph() -> None:
    """A graph that cannot be read leaves the others of its file alone."""
    nodes = saved_graphs.gated().nodes
    one, two, three = load_mugraphs(json.dumps([nodes, nodes[1:], nodes]).encode())
    assert isinstance(one, MirageGraph)
    assert isinstance(two, FormatError)
    assert isinstance(three, MirageGraph)
    assert (one.number, three.number) == (0, 2)


def test_given_inputs() -> None:
    """A graph takes other inputs of the same types in the place of its own."""
    graph = only(saved_graphs.gated())
    named = [tensor(name, x.dtype, x.shape) for name, x in zip("XVW", graph.inputs, strict=True)]
    assert graph.program(named).inputs == tuple(named)
    with pytest.raises(ShapeError):
        graph.program(named[:2])
    with pytest.raises(FormatError):
        graph.program(named[::-1])


def test_pairs_with_a_program_of_fixed_sizes() -> None:
    """A program that is no built-in is paired at its own sizes and types only."""
    graph = only(saved_graphs.gated())
    builtin = BUILTINS["gated_mlp"]
    assert len(list(pairs(graph, builtin.program(row=8, feature=256, hidden=512)))) == 2
    assert list(pairs(graph, builtin.program(row=8, feature=256, hidden=256))) == []
    assert list(pairs(graph, builtin.program("f32", row=8, feature=256, hidden=512))) == []
    assert list(pairs(graph, BUILTINS["lora"])) == []


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.sampled_from(FILES))
def test_damaged_files(seed: int, file: str) -> None:
    """Truncated and changed files are read or refused; nothing else happens."""
    draw = random.Random(seed)
    data = bytearray(json.dumps(json.loads((DATA / f"{file}.json").read_bytes())[:1]).encode())
    for _ in range(draw.randrange(4)):
        at = draw.randrange(len(data))
        data[at : at + draw.randrange(3)] = draw.choice(
            [b"", b"-", b"9" * 30, b"[", b"null", b"1e9", b'"', bytes([draw.randrange(256)])]
        )
    if draw.random() < 0.3:
        del data[draw.randrange(len(data)) :]
    try:
        for found in load_mugraphs(bytes(data)):
            assert isinstance(found, MirageGraph | FormatError)
    except FormatError:
        return


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with every key in it."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return []
    return [(value, key) for key, _ in items] + [
        place for _, inner in items for place in _places(inner)
    ]


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_changed_documents(seed: int) -> None:
    """Documents with values removed, moved or of another type are read or refused."""
    draw = random.Random(seed)
    document = json.loads(saved_graphs.split_kv().json())
    for _ in range(draw.randint(1, 3)):
        places = _places(document)
        holder, key = draw.choice(places)
        other, source = draw.choice(places)
        new = draw.choice([None, 0, -1, 3, 10**20, 1.5, "x", [], {}, True, other[source]])
        holder[key] = json.loads(json.dumps(new))
    for found in load_mugraphs(json.dumps(document).encode()):
        assert isinstance(found, MirageGraph | FormatError)


@pytest.mark.parametrize("file", FILES)
def test_graphs_as_text_and_json(file: str) -> None:
    """What is read can be written as text and as JSON, and reads back as the same program."""
    for graph in graphs((DATA / f"{file}.json").read_bytes()):
        program = graph.program()
        assert parse(write(program)) == program
        assert from_json(to_json(program)) == program
