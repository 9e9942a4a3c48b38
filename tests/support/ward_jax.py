"""A child that needs jax, and is otherwise as any."""

from __future__ import annotations

import jax  # noqa: F401
from ward import main


def prepare() -> None:
    """Nothing more is needed."""


if __name__ == "__main__":
    main()
