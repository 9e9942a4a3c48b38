"""The console script finds this transport by its name; what it cannot do it says in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from aiosearch_ray import RayListener
from aiosearch_ray.transport import transport

from aiosearch import AiosearchError
from aiosearch.remote.links import API, UnwelcomeError


def test_it_speaks_the_version_of_this_aiosearch() -> None:
    assert transport.api == API


def test_a_token_file_is_refused() -> None:
    with pytest.raises(AiosearchError, match="leave --token-file out"):
        transport.listener(None, Path("token"))


def test_a_ray_client_is_refused() -> None:
    with pytest.raises(AiosearchError, match="on a machine of the cluster"):
        transport.listener("ray://192.0.2.1:10001", None)


async def test_a_machine_that_wants_to_join_is_told_how() -> None:
    with pytest.raises(UnwelcomeError, match=r"ray start --address=192\.0\.2\.1:6379"):
        await transport.connect("192.0.2.1:6379", None)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "here:there"])
async def test_no_cluster_at_an_address_is_a_sentence(address: str) -> None:
    listener = RayListener(address)
    with pytest.raises(AiosearchError, match=f"no Ray cluster answers at {address}"):
        await listener.start(lambda link: None)
    await listener.close()


def test_ray_is_imported_only_where_it_is_used() -> None:
    imports = "import sys, aiosearch_ray.transport, aiosearch_ray.strategy"
    code = f"{imports}; assert 'ray' not in sys.modules"
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=paths)
