"""`Evidence`: what an answer states beside its verdict and its timings, as it is kept on disk.

`Answer.evidence` is encoded as a map with the names of these fields for keys. A field that does not
apply is not written, so that an answer in plain JAX on a CPU reads in JSON as

    {"flops": 134217728, "bytes": 8404992, "kinds": ["bfloat16"], "original_error_ulp": 0.5,
     "answer_error_ulp": 0.75, "newly_defined": 0, "program": "…", "timed_on": "normal inputs",
     "ways": {"hot": {"original": 9e-4, "answer": 9e-5, …}}, "tried": […], "speedup": 10.0,
     "speedup_over_plain": 1.4}

Aiosearch 0.1.0 wrote a free map with the same keys: what it wrote is read here, and the reverse.
A key is never renamed or given another type, unless `answer.SCHEMA` goes up too.
"""

from __future__ import annotations

from msgspec import Struct


class ModeTimes(Struct, frozen=True):
    """Seconds of a call by medians, of the original and of the answer, in one `Way` of running."""

    original: float
    answer: float
    speedup: float
    """How many times as fast `answer` is as `original`, by paired rounds of the race."""
    low: float
    """Where the interval of `speedup` begins, with 95 % confidence."""
    high: float
    """Where the interval of `speedup` ends."""
    original_cpu: float
    """Seconds that all threads of the process took together for a call of the original."""
    answer_cpu: float
    """Seconds that all threads of the process took together for a call of the answer."""


class Tried(Struct, frozen=True):
    """One candidate that was tried, and what became of it."""

    how: str
    """What was done to the original, in words: `scale after the product, f32 accumulation`."""
    seconds: float | None
    """Seconds of a call, by the median; `None` where it failed or was too slow for
    the last race."""
    speedup: float | None
    """Over the original, by paired rounds; `None` where `seconds` is."""
    note: str = ""
    """Why it is out; empty where it is not."""
    verdict: str = ""
    """The first line of its verdict as a program, or `the same operations`."""
    low: float | None = None
    """The seconds that the true median lies above, with 95 % confidence."""
    high: float | None = None
    """The seconds that the true median lies below, with 95 % confidence."""
    won: bool = False
    """Whether it is the answer."""
    schedule: str = ""
    """The tiles and layouts of each kernel, as short as can be; empty where it is JAX."""


class Evidence(Struct, frozen=True, omit_defaults=True):
    """What was counted and measured of an answer; a field is `None` or empty where it is not.

    The answer for a program has all up to `speedup_over_plain`; that for a function as a whole has
    `speedup`, `kept`, `ways` and `tried`; that for a function as it is called has `speedup`, `ways`
    and what stands below `kept`. Where the drop-in was called, the first two have its `speedup`,
    `between`, `ways` and `tails` too, so that a gain has one figure wherever it stands.
    """

    flops: int | None = None
    """Operations that the program has to compute."""
    bytes: int | None = None
    """Bytes that the program has to read and to write, each array once."""
    kinds: tuple[str, ...] | None = None
    """The names that `Ceilings.flops_per_second` has for the element types of its inputs."""
    original_error_ulp: float | None = None
    """The largest error of the original on the device, in units in the last place."""
    answer_error_ulp: float | None = None
    """The largest error of the answer on the device, in units in the last place."""
    newly_defined: int | None = None
    """At how many elements there are numbers where the original gives NaN or infinity."""
    packed_bytes: int | None = None
    """The memory of what is made beforehand of constant inputs."""
    program: str | None = None
    """The program that the source computes, as `aiosearch.tensor.text.write` writes it."""
    original: str | None = None
    """The program as written, likewise; `None` where it is `program`."""
    timed_on: str | None = None
    """The draws of the inputs of the race, as `BenchmarkInputs` prints them."""
    ways: dict[str, ModeTimes] = {}
    """The times of the last race, by the value of `measure.Way`; of those ways in which it was
    called in the user's process, the times there."""
    tried: tuple[Tried, ...] = ()
    """Every candidate, the original first; of a function as a whole, every arrangement."""
    speedup: float | None = None
    """How many times as fast as the original, by the median of paired rounds of the race that
    confirmed it; what is claimed is the lower end of `between`."""
    speedup_over_plain: float | None = None
    """How many times as fast as the best plain JAX that is verified, rewritten or not."""
    kept: tuple[str, ...] | None = None
    """Ids of the answers that stand in a function as a whole; empty where none of them paid."""
    between: tuple[float, float] | None = None
    """The interval of `speedup`, with 95 % confidence."""
    queued: float | None = None
    """How many times as fast where no result is waited for before the next call."""
    queued_between: tuple[float, float] | None = None
    """The interval of `queued`."""
    over_plain_between: tuple[float, float] | None = None
    """The interval of `speedup_over_plain`, with 95 % confidence."""
    tails: dict[str, tuple[float, float, float]] = {}
    """How many times as fast the slowest tenth of the calls is, between the ends of its interval,
    by the value of `measure.Way`: the ratio, the lower end, the upper end."""
    slower: str = ""
    """In which ways of calling it loses, in words; empty where there are none."""
    called: bool = False
    """Whether `speedup` is of calls in the user's process; else it is of an executor's race."""
