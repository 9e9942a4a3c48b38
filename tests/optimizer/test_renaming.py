"""Functions of a source by other names."""

from __future__ import annotations

from typing import Any

from aiosearch.optimizer.renaming import renamed

SOURCE = """\
def _erf(x):
    return -x


def _h_1(x):
    h = _erf(x)
    return h


def _h(x):
    return _h_1(x) + 5


def h_pack(x):
    return (x,)


def h(x, _h_10=1):
    return launched(_h, name="h"), launched(_h_1, name="h_1"), _h(x) * _h_10
"""


def test_functions_and_what_they_call_have_other_names() -> None:
    """No other name is touched, not even one that begins like them."""
    text = renamed(SOURCE, {"h": "f_2", "h_pack": "f_2_pack"}, "h", "f_2")
    module: dict[str, Any] = {"launched": lambda function, name: (function.__name__, name)}
    exec(text, module)
    names = [one for one in module if one not in ("launched", "__builtins__")]
    assert names == ["_f_2_erf", "_f_2_1", "_f_2_kernel", "f_2_pack", "f_2"]
    lone, first, value = module["f_2"](3, 2)
    assert lone == ("_f_2_kernel", "f_2_kernel")
    assert first == ("_f_2_1", "f_2_1")
    assert value == 2 * (5 - 3)


def test_a_source_by_its_own_name_stays_as_it_is() -> None:
    """Only what is made beforehand may get the usual name."""
    assert renamed(SOURCE, {"h": "h"}, "h", "h") == SOURCE
    text = SOURCE.replace("h_pack", "before")
    assert renamed(text, {"h": "h", "before": "h_pack"}, "h", "h") == SOURCE
