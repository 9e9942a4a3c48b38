"""Declares the checkout's distributions in a folder of the path, as an install would.

    python distributions.py FOLDER        # in the checkout's root

Strategies are found by entry points, and those are written in a distribution's metadata. The code
stays where it is.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PLUGINS = ("interleaved", "sockets", "stealing")


def main() -> None:
    site = Path(sys.argv[1])
    files = [Path("pyproject.toml"), *(Path("plugins", name, "pyproject.toml") for name in PLUGINS)]
    for file in filter(Path.exists, files):
        read = tomllib.loads(file.read_text())
        declare(read["project"], version(read, file.parent), site)


def version(read: dict[str, Any], folder: Path) -> str:
    """The version in `pyproject.toml`, or in the module that it says has it."""
    if "version" in read["project"]:
        return str(read["project"]["version"])
    module = (folder / read["tool"]["hatch"]["version"]["path"]).read_text()
    stated = re.search(r'^__version__ = "(.+)"', module, re.MULTILINE)
    assert stated is not None, f"no version is in the module that {folder}/pyproject.toml names"
    return stated[1]


def declare(project: dict[str, Any], version: str, site: Path) -> None:
    name = str(project["name"])
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project.get("entry-points", {})
    text = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items()) + "\n"
        for group, entries in groups.items()
    )
    (folder / "entry_points.txt").write_text(text)


if __name__ == "__main__":
    main()
