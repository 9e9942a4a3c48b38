from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiosearch.engine.explore.bundles import Codec, NodeStage, Siblings, halves
from aiosearch.processes.frames import MAX_FRAME

Node = tuple[int, str]
codec: Codec[Node] = Codec("Problem", Node)

groups = st.builds(
    lambda path, length, depth, index, nodes, stage, scored: Siblings(
        path,
        min(length, len(path)),
        depth,
        index,
        nodes,
        [float(len(text)) for _, text in nodes] if scored else [],
        stage,
        0.5,
    ),
    path=st.binary(max_size=30),
    length=st.integers(0, 30),
    depth=st.integers(1, 50),
    index=st.integers(0, 500),
    nodes=st.lists(st.tuples(st.integers(), st.text(max_size=5)), min_size=1, max_size=600).filter(
        lambda nodes: all(-(2**63) <= number < 2**63 for number, _ in nodes)
    ),
    stage=st.sampled_from(list(NodeStage)),
    scored=st.booleans(),
)


def flat(found: list[Siblings[Node]]) -> list[tuple[object, ...]]:
    """Every node with all that is known of it."""
    return [
        (
            group.path_of(offset),
            group.depth,
            group.stage,
            node,
            group.scores[offset] if group.scores else None,
        )
        for group in found
        for offset, node in enumerate(group.nodes)
    ]


@given(st.lists(groups, max_size=5))
def test_packing_keeps_every_node(found: list[Siblings[Node]]) -> None:
    """Nodes, paths, depths, stages and scores come out as they went in, in order."""
    bundles = codec.pack(found, by_score=False)
    again = [group for bundle in bundles for group in codec.unpack(bundle.blob)]
    assert flat(again) == flat(found)
    assert sum(bundle.size for bundle in bundles) == len(flat(found))


def test_bundles_fit_a_frame() -> None:
    """However wide a level is, no bundle is larger than a frame."""
    wide = Siblings(b"\x01", 1, 2, 0, [(n, "x" * 50) for n in range(20_000)])
    bundles = codec.pack([wide], by_score=False)
    assert len(bundles) > 10
    assert max(len(bundle.blob) for bundle in bundles) < MAX_FRAME


@given(st.lists(groups, max_size=6))
def test_halves_are_even_and_complete(found: list[Siblings[Node]]) -> None:
    """Every level is split, and the two sides differ by one subtree at most."""
    kept, given_ = halves(found)
    assert sorted(flat(kept) + flat(given_), key=repr) == sorted(flat(found), key=repr)
    assert abs(len(flat(kept)) - len(flat(given_))) <= 1
