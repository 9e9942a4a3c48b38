"""What `ray` is inside of each machine passes what every strategy has to pass; it needs no Ray."""

from __future__ import annotations

from aiosearch_ray.strategy import Ray

from aiosearch.testing import strategy_suite

TestRay = strategy_suite(Ray)
