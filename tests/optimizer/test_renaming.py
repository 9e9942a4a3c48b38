"""Functions of a source by other names."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiosearch.optimizer.renaming import renamed, with_parameters

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


@pytest.mark.parametrize("name", ["_f_2_erf", "_h", "_erf", "_kernel"])
def test_a_name_may_look_like_that_of_a_helper(name: str) -> None:
    """Which then gets another one: no two functions have the same."""
    text = renamed(SOURCE, {"h": name, "h_pack": f"{name}_pack"}, "h", name)
    defined = re.findall(r"^def (\w+)", text, re.MULTILINE)
    assert len(set(defined)) == len(defined) == 5
    assert name in defined


def test_a_source_by_its_own_name_stays_as_it_is() -> None:
    """Only what is made beforehand may get the usual name."""
    assert renamed(SOURCE, {"h": "h"}, "h", "h") == SOURCE
    text = SOURCE.replace("h_pack", "before")
    assert renamed(text, {"h": "h", "before": "h_pack"}, "h", "h") == SOURCE


CALLED = """\
import math

def other(x, a):
    return x - a


def h(x, w, *, option=0):
    def swift(x, w, *, option=0):
        a = x * 10  # b
        return other(a, w) + option

    b = swift(x, w, option=option)
    return b + math.floor(0.5)
"""


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["w", "x"], ["w", "x"]),
        (["größe", "input"], ["größe", "input"]),
        (["x", "w"], ["x", "w"]),
        (["math", "option"], ["math_", "option_"]),
        (["swift", "other"], ["swift_", "other_"]),
        (["a"], ["a", "w"]),
    ],
)
def test_parameters_are_called_as_is_asked_for(wanted: list[str], names: list[str]) -> None:
    """As far as nothing outside has the name; what has it inside makes room."""
    module: dict[str, Any] = {}
    text = with_parameters(CALLED, "h", wanted)
    exec(text, module)
    assert module["h"](**dict(zip(names, (3, 2), strict=True)), option=5) == 3 * 10 - 2 + 5
    assert module["other"](x=3, a=1) == 2
    assert "# b" in text
