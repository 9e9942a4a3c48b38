"""`aiosearch optimize`: a faster function, or the search alone of fused kernels."""

from __future__ import annotations

import argparse

from .fuseflags import require_fitting


def run(arguments: argparse.Namespace) -> int:
    """Does what is asked for, and gives the exit code; the search alone needs no jax."""
    require_fitting(arguments)
    if arguments.search_only or arguments.space:
        from .fusing import run as fuse

        return fuse(arguments)
    from .faster import run as make_faster

    return make_faster(arguments)
