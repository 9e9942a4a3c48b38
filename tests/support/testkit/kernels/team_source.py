"""Compiles `team.c` to `team.ll`: `python tests/support/testkit/kernels/team_source.py`.

The text is for any 64-bit processor: what clang says of its own target is left out, and so are
declarations that the handler's other parts have. It names the digest of the source it is made of.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import aiosearch

FOLDER = Path(aiosearch.__file__).parent / "codegen" / "native"
SOURCE, TEXT = FOLDER / "team.c", FOLDER / "team.ll"
CLANG = "clang-19"
"""Its text is read by LLVM 20, the oldest that llvmlite has here, and by later ones."""
COMMAND = (
    CLANG, "-std=c17", "-O1", "-fno-strict-aliasing", "-fno-discard-value-names",
    "-Xclang", "-disable-lifetime-markers", "-target", "x86_64-unknown-linux-gnu",
    "-S", "-emit-llvm", "-o", "-",
)  # fmt: skip
ELSEWHERE = (
    "aiosearch.phases", "aiosearch.phase_count", "aiosearch.scratch", "allocate", "free", "forget",
    "now", "pause_since", "core", "leave",
)  # fmt: skip
"""What the other parts of the handler declare or define."""


def has_compiler() -> bool:
    """Says whether the compiler is here of which `TEXT` comes."""
    return shutil.which(CLANG) is not None


def digest() -> str:
    """Gives the digest of the source, which `TEXT` has in its first line."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def compiled() -> str:
    """Gives what `TEXT` should be."""
    command = [*COMMAND, str(SOURCE)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    head = f"; Compiled of team.c by {CLANG}; sha256 {digest()}\n"
    return head + portable(text)


def portable(text: str) -> str:
    """Leaves out what is of one target, or stands in another part of the handler."""
    dropped = re.compile(
        r"; ModuleID|source_filename|target |attributes |!|; Function Attrs"
        rf"|@({'|'.join(map(re.escape, ELSEWHERE))}) = external"
        rf"|declare .*@({'|'.join(map(re.escape, ELSEWHERE))})\("
    )
    lines = [line for line in text.splitlines() if not dropped.match(line)]
    text = "\n".join(lines)
    text = re.sub(r",? !llvm\.loop !\d+", "", text)
    text = re.sub(r" #\d+", "", text)
    text = re.sub(r"\b(dso_local|local_unnamed_addr|noundef|nocapture) ?", "", text)
    text = re.sub(r"^define (?!internal)", "define internal ", text, flags=re.MULTILINE)
    text = re.sub(r" +; preds = .*", "", text)
    return re.sub(r"[ \t]+$", "", re.sub(r"\n{3,}", "\n\n", text), flags=re.MULTILINE) + "\n"


if __name__ == "__main__":
    TEXT.write_text(compiled())
