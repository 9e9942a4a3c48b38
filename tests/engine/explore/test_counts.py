from __future__ import annotations

from aiosearch.engine.explore.counts import Counts


def test_every_counter_is_added() -> None:
    """Adding to nothing gives the same; adding twice doubles all but the maximum."""
    names = Counts.__struct_fields__
    some = Counts(**{name: number for number, name in enumerate(names, 1)})
    total = Counts()
    total.add(some)
    assert total == some
    total.add(some)
    doubled = {name: 2 * getattr(some, name) for name in names} | {"depth": some.depth}
    assert total == Counts(**doubled)
