"""What counts as slower, on times that were made up and on real ones."""

from __future__ import annotations

import pytest
from lib.optimizer.paired_timing import LEAST, compared, judged


def rounds(other: float, spread: float = 0.0) -> list[tuple[float, float, float]]:
    """Twelve rounds whose base takes a second, or a little more the first time or the second."""
    turns = (-spread, 0.0, spread) * 4
    return [(1.0 + turn, other, 1.0 - turn) for turn in turns]


@pytest.mark.parametrize(("other", "slower"), [(0.5, False), (1.0, False), (1.01, True)])
def test_what_is_quiet_is_judged_exactly(other: float, slower: bool) -> None:
    """Without any noise a loss of a hundredth counts."""
    found = judged(rounds(other))
    assert (found.noise, found.rounds) == (0.0, 12)
    assert found.ratio.median == pytest.approx(1 / other)
    assert found.slower is slower


def test_a_loss_within_the_noise_of_its_own_function_does_not_count() -> None:
    """Where the base is a tenth from itself, a loss of a twentieth tells nothing."""
    noisy = judged(rounds(1.05, spread=0.05))
    assert noisy.noise > 0.1
    assert not noisy.slower
    assert judged(rounds(1.05, spread=0.005)).slower
    assert judged(rounds(2.0, spread=0.05)).slower


def test_one_bad_round_makes_no_loss() -> None:
    """The bounds hold the median; a neighbour that wakes up once does not move them."""
    calm = rounds(1.0)
    assert not judged([*calm, (1.0, 100.0, 1.0)]).slower


def test_no_time_is_time_for_bounds() -> None:
    """Real calls are timed as often as bounds need, however little time there is."""
    found = compared(lambda: sum(range(4000)), lambda: sum(range(2000)), seconds=0.0)
    assert found.rounds == LEAST
    assert found.ratio.low <= found.ratio.median <= found.ratio.high
    assert found.base > 0 < found.other
