"""The console script finds this transport by its name, and gives it addresses and files."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest
from aiosearch_sockets import new_token, own_token
from aiosearch_sockets.transport import transport

from aiosearch import AiosearchError
from aiosearch.remote.links import API, Link
from aiosearch.testing import no_leaks


def test_it_speaks_the_version_of_this_aiosearch() -> None:
    assert transport.api == API


async def test_a_token_file_on_both_sides_makes_a_link(tmp_path: Path) -> None:
    file = tmp_path / "token"
    new_token(file)
    async with no_leaks():
        joined: asyncio.Queue[Link] = asyncio.Queue()
        listener = transport.listener("127.0.0.1:0", file)
        await listener.start(joined.put_nowait)
        (await transport.connect(listener.address, file)).close()
        (await joined.get()).close()
        await listener.close()


async def test_without_address_and_token_file_it_is_for_the_user_on_this_machine() -> None:
    async with no_leaks():
        joined: asyncio.Queue[Link] = asyncio.Queue()
        listener = transport.listener(None, None)
        await listener.start(joined.put_nowait)
        (await transport.connect(listener.address, None)).close()
        (await joined.get()).close()
        await listener.close()


@pytest.mark.parametrize("name", ["token", "my token"])
async def test_an_invitation_can_be_typed_as_it_is(tmp_path: Path, name: str) -> None:
    """It names the address and the file of the token, which it does not tell."""
    file = tmp_path / name
    token = new_token(file)
    async with no_leaks():
        listener = transport.listener("127.0.0.1:0", file)
        await listener.start(lambda link: None)
        words = shlex.split(listener.invitation)
        expected = ["aiosearch", "worker", "--connect", listener.address, "--token-file", str(file)]
        assert words == expected
        assert token.decode() not in listener.invitation
        await listener.close()


async def test_an_invitation_names_the_users_own_token_where_there_is_no_other() -> None:
    async with no_leaks():
        listener = transport.listener(None, None)
        await listener.start(lambda link: None)
        _, file = own_token()
        assert shlex.split(listener.invitation)[-2:] == ["--token-file", str(file)]
        await listener.close()


def test_a_bad_token_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AiosearchError, match="No such file"):
        transport.listener("127.0.0.1:0", tmp_path / "nothing")
