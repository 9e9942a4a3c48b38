"""Checks on the board that a strategy names, if it does: who has which offer is never in doubt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...checks.verdict import Status
from .subject import StrategyUnderTest, agree

if TYPE_CHECKING:
    from ...strategies import Board, Exchange, Taken

Body: TypeAlias = "Callable[[Board, Sequence[Exchange]], None]"

OWNERS = (41, 17, 23)
"""Owners by place: they are numbers of lives, and no places."""
LATER_OWNERS = (50, 51, 60)
# The last one fits no board: it has to be refused, not cut
SIZES = (1, 100, 10_000, 1_000_000)


async def on_its_board(subject: StrategyUnderTest, body: Body) -> None:
    """Does a check on an empty board, with a life at each of its places, for `OWNERS`."""
    board = subject.board(len(OWNERS))
    if board is None:
        return
    try:
        everybody = [board.exchange(place, owner, _nobody) for place, owner in enumerate(OWNERS)]
        body(board, everybody)
        for life in everybody:
            life.close()
    finally:
        board.close()


def tells_who_has_what(board: Board, everybody: Sequence[Exchange]) -> None:
    """Two take what a third one offers: each offer once, and `taken` tells who has it."""
    giver, *peers = everybody
    numbers = _lay_out(giver)
    # Or a worker that has run dry would give itself work for ever
    agree("a worker's offers, taken by itself, are", list(giver.take()), [])
    offers = _take_all(peers)
    _agree_on_taken(offers, numbers)
    takers = {offer.number: OWNERS[place] for place, offer in offers}
    agree("who has which offer is, by `taken`,", dict(giver.taken()), takers)
    agree("what `taken` tells once more is", list(giver.taken()), [])


def gives_back_what_is_left(board: Board, everybody: Sequence[Exchange]) -> None:
    """What nobody took comes back by `regain`, and that is all; nobody takes it any more."""
    giver, taker, _ = everybody
    numbers = _lay_out(giver)
    taken_numbers = {offer.number for offer in taker.take()}
    left = [number for number in numbers if number not in taken_numbers]
    agree("the offers regained are", sorted(giver.regain()), left)
    agree(
        "the offers gone are, by `taken`,",
        dict(giver.taken()),
        dict.fromkeys(taken_numbers, OWNERS[1]),
    )
    agree("the offers regained again are", list(giver.regain()), [])
    agree("what can be taken when all is regained is", list(taker.take()), [])


def finalises_dead_workers(board: Board, everybody: Sequence[Exchange]) -> None:
    """A dead worker's offers are revoked: those that were taken are told of by `Board.revoke`,
    the others are gone."""
    dead, *living = everybody
    _lay_out(dead)
    takers = {offer.number: OWNERS[1] for offer in living[0].take()}
    agree("who has what of the dead is, by `revoke`,", _revoked(board, 0, OWNERS[0]), takers)
    agree("what can be taken of the dead is", _take_all(living), [])
    nothing = _revoked(board, 2, OWNERS[2])
    agree("who has what of one who died and had offered nothing is, by `revoke`,", nothing, {})
    # An owner that died before it sat down: the place is somebody else's, and stays so
    nothing = _revoked(board, 2, LATER_OWNERS[0])
    agree("who has what of one who died before it sat down is, by `revoke`,", nothing, {})


def seats_lives(board: Board, everybody: Sequence[Exchange]) -> None:
    """The last place is as good as the first, and one life after another sits there."""
    taker, place = everybody[0], len(OWNERS) - 1
    _revoked(board, place, OWNERS[place])
    for owner in LATER_OWNERS:
        life = board.join(board.path, place, owner, _nobody)
        numbers = _lay_out(life)
        offers = taker.take()
        agree("owners of what was taken are", {offer.owner for offer in offers}, {owner})
        if offers[0].number not in numbers:
            raise AssertionError(f"offer {offers[0].number} was taken, and made by nobody")
        takers = {offer.number: OWNERS[0] for offer in offers}
        life.taken()  # the host may never hear of it
        agree(
            f"who has what of life {owner} is, by `revoke`,", _revoked(board, place, owner), takers
        )
        life.close()


def begins_at_rest(board: Board, everybody: Sequence[Exchange]) -> None:
    """Who has just come has nothing to do, and so nothing to offer, until `rest(False)`."""
    first, second, _ = everybody
    first.rest(False)
    agree("that all others have just come, so nothing can come from others is", first.quiet, True)
    second.rest(False)
    agree("that another one works, and nothing can come from others is", first.quiet, False)
    second.rest(True)
    agree("that all others rest, so nothing can come from others is", first.quiet, True)


def keeps_what_fits(board: Board, everybody: Sequence[Exchange]) -> None:
    """What `fits` arrives whole, and there is room again when it was taken."""
    giver, taker, _ = everybody
    for number, size in enumerate(SIZES, 1):
        blob = bytes(index % 251 for index in range(size))
        if not giver.fits(blob):
            continue
        room = giver.room
        giver.offer(number, blob, 0.5)
        agree(
            f"an offer of {size} bytes, taken, is", [offer.blob for offer in taker.take()], [blob]
        )
        giver.taken()
        agree(f"the room after an offer of {size} bytes was taken is", giver.room, room)
    agree("whether an offer of 100 bytes fits is", giver.fits(bytes(100)), True)


def shares_verdicts(board: Board, everybody: Sequence[Exchange]) -> None:
    """All know the lowest cost that one told of; nobody gets a wrong answer of z3's."""
    first, second, _ = everybody
    agree("the lowest cost that nobody told of is", second.best, math.inf)
    for cost in (5.0, 3.0, 4.0):
        first.improve(cost)
    agree("the lowest cost that another one told of is", second.best, 3.0)
    first.judged(bytes(32), Status.PROVED.value)
    if second.verdict(bytes(32)) not in ("", Status.PROVED.value):
        raise AssertionError("what z3 had proved was told otherwise")
    agree("what z3 said to a question that nobody asked is", second.verdict(b"q" * 32), "")


def _nobody() -> None:
    """Nobody has to be woken."""


def _lay_out(giver: Exchange) -> list[int]:
    """Offers as much as there is `room` for, up to four subtrees; gives the numbers."""
    if giver.room < 1:
        raise AssertionError("a life that has offered nothing has no room for an offer")
    numbers = list(range(1, min(giver.room, 4) + 1))
    for number in numbers:
        giver.offer(number, _blob(number), 1 / (number + 1))
    return numbers


def _blob(number: int) -> bytes:
    return f"subtree {number}".encode()


def _take_all(exchanges: Sequence[Exchange]) -> list[tuple[int, Taken]]:
    """Lets the exchanges `take` in turn until they find nothing; says at which places."""
    offers = []
    while batch := [
        (place, offer) for place, exchange in enumerate(exchanges, 1) for offer in exchange.take()
    ]:
        offers += batch
    return offers


def _agree_on_taken(offers: list[tuple[int, Taken]], numbers: list[int]) -> None:
    agree("the offers taken are", sorted(offer.number for _, offer in offers), numbers)
    agree("owners of what was taken are", {offer.owner for _, offer in offers}, {OWNERS[0]})
    agree(
        "the offers taken that are not what was offered are",
        [offer.number for _, offer in offers if offer.blob != _blob(offer.number)],
        [],
    )


def _revoked(board: Board, place: int, owner: int) -> dict[int, int]:
    takers = board.revoke(place, owner)
    if takers is None:
        raise AssertionError("`revoke` cannot say who has what, and nobody is at it")
    return takers
