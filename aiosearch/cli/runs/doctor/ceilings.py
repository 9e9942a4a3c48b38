"""The machine's ceilings as `aiosearch doctor` reports and measures them."""

from __future__ import annotations

from ....measure import Ceilings, ExecutorError, JaxExecutor, Way, stored_ceilings
from ....measure import measure_ceilings as measured
from ....measure.ceilings import HOW, NOISIEST, store_ceilings
from ...output.streams import tell
from .probes import Finding, broken

PLATFORMS = ("cpu", "cuda")


async def measure() -> list[Finding]:
    """Measures every device that is there, keeps the figures, and says what could not be done."""
    tell(HOW)
    troubles = []
    for platform in PLATFORMS:
        try:
            async with JaxExecutor(platform, ways=(Way.HOT,), compilers=1) as executor:
                found = await measured(executor)
                if found.noise <= NOISIEST:
                    store_ceilings(found)
                else:
                    troubles.append(_too_noisy(found))
        except ExecutorError as error:
            if platform == "cpu":
                troubles.append(broken("ceilings", str(error), "pip install jax"))
        except OSError as error:
            troubles.append(broken("ceilings", f"cannot be kept: {error}", "make room"))
    return troubles


def _too_noisy(found: Ceilings) -> Finding:
    told = f"not kept: two runs of the same seemed {found.noise:.0%} apart"
    remedy = "end what else runs, then aiosearch doctor --measure"
    return broken(f"ceilings {found.platform}", told, remedy)


def stored() -> list[Finding]:
    """Gives the figures that were kept for this machine."""
    found = stored_ceilings()
    if not found:
        return [Finding("ceilings", "not measured yet", remedy="aiosearch doctor --measure")]
    return [Finding(f"ceilings {each.platform}", _line(each)) for each in found]


def _line(ceilings: Ceilings) -> str:
    flops = ", ".join(
        f"{value / 1e9:,.0f} GFLOP/s {dtype}" for dtype, value in ceilings.flops_per_second.items()
    )
    sweeps = ", ".join(f"{name} {value / 1e9:,.1f}" for name, value in ceilings.sweeps.items())
    return (
        f"{ceilings.device}: {ceilings.bytes_per_second / 1e9:,.1f} GB/s ({sweeps}), {flops}, "
        f"noise {ceilings.noise:.0%}, {ceilings.versions}, protocol {ceilings.protocol}, "
        f"{ceilings.taken}"
    )
