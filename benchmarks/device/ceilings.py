"""Measures the GPU's ceilings and stores them where `benchmarks/kernels.py` looks for them."""

from __future__ import annotations

import asyncio

from aiosearch.measure import JaxExecutor, Way, measure_ceilings, store_ceilings


async def main() -> None:
    async with JaxExecutor("cuda", ways=(Way.HOT,), compilers=1) as executor:
        ceilings = await measure_ceilings(executor)
    store_ceilings(ceilings)
    products = {
        name: f"{value / 1e12:.1f} TFLOP/s" for name, value in ceilings.flops_per_second.items()
    }
    sweeps = {name: f"{value / 1e12:.3f} TB/s" for name, value in ceilings.sweeps.items()}
    print(f"ceilings: {ceilings.device} {sweeps} {products} noise {ceilings.noise:.1%}")


if __name__ == "__main__":
    asyncio.run(main())
