"""The strategy passes what every strategy has to."""

from __future__ import annotations

from aiosearch_ray.strategy import Ray

from aiosearch.testing import strategy_suite

TestRay = strategy_suite(Ray)
