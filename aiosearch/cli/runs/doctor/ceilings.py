"""The machine's ceilings as `aiosearch doctor` reports and measures them."""

from __future__ import annotations

from ....measure import Ceilings, ExecutorError, JaxExecutor, Way, stored_ceilings
from ....measure import measure_ceilings as measured
from ....measure.ceilings import HOW, NOISIEST, store_ceilings
from ...output.streams import tell
from .probes import DoctorFinding, broken

PLATFORMS = ("cpu", "cuda")


async def measure() -> list[DoctorFinding]:
    """Measures every device that is there, keeps the figures, and says what could not be done."""
    tell(HOW)
    troubles = []
    for platform in PLATFORMS:
        try:
            async with JaxExecutor(platform, ways=(Way.HOT,), compilers=1) as executor:
                ceilings = await measured(executor)
                if ceilings.noise <= NOISIEST:
                    store_ceilings(ceilings)
                else:
                    troubles.append(_too_noisy(ceilings))
        except ExecutorError as error:
            if platform == "cpu":
                troubles.append(broken("ceilings", str(error), "pip install jax"))
        except OSError as error:
            troubles.append(broken("ceilings", f"cannot be kept: {error}", "make room"))
    return troubles


def _too_noisy(ceilings: Ceilings) -> DoctorFinding:
    detail = f"not kept: two runs of the same seemed {ceilings.noise:.0%} apart"
    remedy = "end what else runs, then aiosearch doctor --measure"
    return broken(f"ceilings {ceilings.platform}", detail, remedy)


def stored() -> list[DoctorFinding]:
    """Gives the figures that were kept for this machine."""
    ceilings = stored_ceilings()
    if not ceilings:
        return [DoctorFinding("ceilings", "not measured yet", remedy="aiosearch doctor --measure")]
    return [
        DoctorFinding(f"ceilings {device_ceilings.platform}", _line(device_ceilings))
        for device_ceilings in ceilings
    ]


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
