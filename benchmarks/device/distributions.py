"""Declares the checkout's distributions in a folder of the path, as an install would.

    python distributions.py FOLDER        # in the checkout's root

Strategies are found by entry points, and those are written in a distribution's metadata. The code
stays where it is.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PLUGINS = ("interleaved", "sockets", "stealing")


def main() -> None:
    site = Path(sys.argv[1])
    files = [Path("pyproject.toml"), *(Path("plugins", name, "pyproject.toml") for name in PLUGINS)]
    for file in filter(Path.exists, files):
        declare(tomllib.loads(file.read_text())["project"], site)


def declare(project: dict[str, object], site: Path) -> None:
    name, version = str(project["name"]), project["version"]
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project.get("entry-points", {})
    assert isinstance(groups, dict)
    text = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items()) + "\n"
        for group, entries in groups.items()
    )
    (folder / "entry_points.txt").write_text(text)


if __name__ == "__main__":
    main()
