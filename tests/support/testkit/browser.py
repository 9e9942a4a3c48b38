"""A headless browser, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def screenshot(address: str, path: Path, width: int = 1100, height: int = 1600) -> tuple[Path, str]:
    """Opens a page, and gives a picture of it and what the browser said; skips without one."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip("there is no chromium to open the page in: apt install chromium")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--enable-logging=stderr", f"--user-data-dir={path.parent / 'browser'}",
        f"--window-size={width},{height}", f"--screenshot={path}", address,
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert path.exists(), ended.stderr
    return path, ended.stderr
