"""What tests of CUDA kernels share."""

from __future__ import annotations

import pytest

pytest.importorskip("clang.cindex", reason="the extra `cuda` brings libclang")
