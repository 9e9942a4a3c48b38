"""Calls of libraries by our kernels or by XLA, whichever is faster for the shapes of the call.

The problem: a call such as a convolution comes again and again with the same shapes, and who is
faster depends on them. XLA's product of large matrices is hard to beat; its convolution backward of
an image of 4 by 4 pixels is not. So the first call of a kind runs both, by turns, compares what
they give, and from then on the faster one is called. What was measured is kept in a table in the
user's cache, so that the next process need not measure.

Our kernels are the CUDA text `library_kernels.cu`, compiled as any user's text is. A convolution is
a product of matrices: row `(c, r, s)` of the columns has, for each pixel of the output, the pixel
of channel `c` that lies under place `(r, s)` of the filter.

    y[k, pixel] = filter[k, (c, r, s)] * columns[(c, r, s), pixel]
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .compiled.lowering import Choices, LibraryPolicy
from .errors import CudaError
from .interpreter.arithmetic import Array

if TYPE_CHECKING:
    from ..tuner.records import RecordTable
    from .modules import CudaKernel, CudaModule

Number: TypeAlias = int | float | bool
Result: TypeAlias = Any
"""An array of JAX, or a tuple of them."""
Program: TypeAlias = Callable[..., Result]
"""A function that XLA has compiled, from arrays to one or several."""
Routine: TypeAlias = Callable[[Sequence[Array], Sequence[Array]], None]
"""A call by our kernels: reads the inputs, writes the outputs."""

TEXT = Path(__file__).with_name("library_kernels.cu")
_ROUNDS, _MOST_ROUNDS, _SECONDS = 8, 40, 0.05
"""Turns that are always timed, and how long it goes on where they do not tell who is faster."""
_TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}
"""How far ours may be from XLA's result, as a part of its largest element."""
_NARROW = 32
"""Columns up to which a product is done by blocks of 16 columns."""
_FEW_PIXELS = 64
"""Pixels of an image below which a product is done for all images at once."""
_COLUMNS = {"wide": 64, "narrow": 16}
_THREADS = {"wide": (32, 8), "narrow": (16, 8)}
_ROWS = 48


class Server(StrEnum):
    """Who does a call."""

    OURS = "ours"
    XLA = "XLA"


@dataclass(frozen=True, slots=True)
class LibraryChoice:
    """Who does the calls of one kind, and why."""

    call: str
    arguments: tuple[str, ...]
    """The types of arrays, and the numbers of the call's descriptors."""
    server: Server
    reason: str
    ours_seconds: float | None = None
    xla_seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.call}({', '.join(self.arguments)}): {self.server}, {self.reason}"


@dataclass(slots=True)
class LibraryServers:
    """The choices of a module, in the order in which its calls came first."""

    policy: LibraryPolicy
    choices: dict[tuple[str, tuple[str, ...]], LibraryChoice] = field(default_factory=dict)

    def serve(
        self,
        call: str,
        numbers: Sequence[Number],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        xla: Program,
        ours: Routine | None,
    ) -> None:
        """Does a call: puts into the outputs what the inputs give."""
        key = (call, _kind(numbers, inputs))
        choice = self.choices.get(key)
        if choice is None:
            choice = self.choices[key] = self._chosen(key, inputs, outputs, xla, ours)
        if choice.server is Server.OURS and ours is not None:
            ours(inputs, outputs)
        else:
            _by_xla(xla, inputs, outputs)

    def _chosen(
        self,
        key: tuple[str, tuple[str, ...]],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        xla: Program,
        ours: Routine | None,
    ) -> LibraryChoice:
        if ours is None:
            return LibraryChoice(*key, Server.XLA, "as we have no kernel for it")
        if self.policy is not LibraryPolicy.MEASURED:
            server = Server.OURS if self.policy is LibraryPolicy.OURS else Server.XLA
            return LibraryChoice(*key, server, "as it was asked for")
        return _remembered(key) or _measured(key, inputs, outputs, xla, ours)


def _kind(numbers: Sequence[Number], inputs: Sequence[Array]) -> tuple[str, ...]:
    """What calls have in common that take the same time: types of arrays, and numbers."""
    types = [f"{item.dtype.name}[{','.join(map(str, item.shape))}]" for item in inputs]
    return (*types, *(f"{item:g}" for item in numbers))


def _by_xla(xla: Program, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    results = xla(*inputs)
    for output, result in zip(
        outputs, results if isinstance(results, tuple) else (results,), strict=True
    ):
        if result.size != output.size:
            raise CudaError(
                f"the output is of shape {output.shape}, and the result of {tuple(result.shape)}"
            )
        np.copyto(output, np.asarray(result).reshape(output.shape))


# --- who is faster


def _measured(
    key: tuple[str, tuple[str, ...]],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    xla: Program,
    ours: Routine,
) -> LibraryChoice:
    """Runs both by turns on copies of the outputs, which may be what a call adds to."""
    from ..measure.ratios import paired_ratio

    # The first of each compiles, and is what the results are compared by.
    theirs_out, ours_out = ([np.empty_like(item) for item in outputs] for _ in range(2))
    _by_xla(xla, inputs, theirs_out)
    ours(inputs, ours_out)
    error = max(map(_difference, ours_out, theirs_out))
    if error > _TOLERANCE[outputs[0].dtype]:
        return LibraryChoice(
            *key, Server.XLA, f"as our result is {error:.1e} of the largest element off"
        )
    times: dict[Server, list[float]] = {server: [] for server in Server}
    for turn in range(_MOST_ROUNDS):
        # Whoever comes second finds the inputs in the caches, so they change places.
        for server in Server if turn % 2 else reversed(Server):
            start = time.perf_counter()
            if server is Server.OURS:
                ours(inputs, ours_out)
            else:
                _by_xla(xla, inputs, theirs_out)
            times[server].append(time.perf_counter() - start)
        ratio = paired_ratio(times[Server.XLA], times[Server.OURS])
        is_clear = ratio.low > 1 or ratio.high < 1
        spent = sum(map(sum, times.values()))
        if turn + 1 >= _ROUNDS and (is_clear or spent > _SECONDS):
            break
    medians = {server: float(np.median(listed)) for server, listed in times.items()}
    speedup = (ratio.median, ratio.low, ratio.high)
    choice = _by_ratio(key, speedup, medians[Server.OURS], medians[Server.XLA], "measured now")
    return _stored(choice, speedup, error)


def _by_ratio(
    key: tuple[str, tuple[str, ...]],
    speedup: tuple[float, float, float],
    ours: float,
    xla: float,
    when: str,
) -> LibraryChoice:
    middle, low, high = speedup
    server = Server.OURS if middle > 1 else Server.XLA
    if server is Server.XLA:
        middle, low, high = 1 / middle, 1 / high, 1 / low
    doubt = "" if low > 1 else ", in doubt"
    reason = (
        f"{middle:.2f} [{low:.2f}, {high:.2f}] times as fast{doubt}: ours {ours * 1e3:.3f} ms,"
        f" XLA {xla * 1e3:.3f} ms, {when}"
    )
    return LibraryChoice(*key, server, reason, ours, xla)


def _difference(ours: Array, theirs: Array) -> float:
    """How far one is off, as a part of the other's largest element."""
    # Infinities and NaN have to be in the same places; the rest is compared by size.
    finite = np.isfinite(theirs)
    if not np.array_equal(finite, np.isfinite(ours)):
        return np.inf
    if not finite.any():
        return 0.0
    largest = float(np.abs(theirs[finite]).max()) or 1.0
    return float(np.abs(ours[finite] - theirs[finite]).max()) / largest


# --- what is remembered


@functools.cache
def _table(folder: Path) -> RecordTable:
    from ..tuner.records import RecordTable

    return RecordTable(folder / "cuda-libraries.json")


@functools.cache
def _versions() -> str:
    """What a time depends on besides the machine: XLA, and the text of our kernels."""
    import jax

    digest = hashlib.sha256(TEXT.read_bytes()).hexdigest()[:12]
    return f"jax {jax.__version__}, kernels {digest}"


@functools.cache
def _device() -> str:
    from ..measure.processor import cpu_kind

    return cpu_kind()


def _remembered(key: tuple[str, tuple[str, ...]]) -> LibraryChoice | None:
    from ..folders import cache_folder

    record = _table(cache_folder()).find(key[0], _device(), key[1])
    if record is None or record.versions != _versions() or record.speedup is None:
        return None
    ours, xla = record.seconds or 0.0, record.baseline_seconds or 0.0
    return _by_ratio(key, record.speedup, ours, xla, "measured before")


def _stored(
    choice: LibraryChoice, speedup: tuple[float, float, float], error: float
) -> LibraryChoice:
    from ..folders import cache_folder
    from ..tuner.errors import TableError
    from ..tuner.records import TuningRecord

    record = TuningRecord(
        kernel=choice.call,
        arguments=choice.arguments,
        device=_device(),
        configuration={},
        decisions={},
        winner="tuned" if choice.server is Server.OURS else "reference",
        checked="tested",
        evidence=f"{error:.1e} of the largest element off XLA's result",
        seconds=choice.ours_seconds,
        baseline_seconds=choice.xla_seconds,
        speedup=speedup,
        versions=_versions(),
    )
    try:
        _table(cache_folder()).put(record)
    except TableError as unwritten:
        return LibraryChoice(
            choice.call,
            choice.arguments,
            choice.server,
            f"{choice.reason}, and not kept: {unwritten}",
            choice.ours_seconds,
            choice.xla_seconds,
        )
    return choice


# --- our kernels


@functools.cache
def _module() -> CudaModule:
    from .modules import load

    # Threads hold several sums each, so several rows at once would be more than registers hold.
    return load(TEXT, choices=Choices(rows=1))


@functools.cache
def _kernel(name: str, dtype: np.dtype[Any]) -> CudaKernel:
    return _module()[f"{name}_{'f32' if dtype == np.float32 else 'f64'}"]


def _launch(
    name: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: Sequence[Number | Array],
    dtype: np.dtype[Any],
) -> None:
    values = [item.ctypes.data if isinstance(item, np.ndarray) else item for item in arguments]
    _kernel(name, dtype)[grid, block].run(values)


def _width(size: int) -> int:
    """Threads for so many neighbours: enough for vectors, few where there are few."""
    return next((width for width in (16, 64) if size <= width), 256)


def can_serve(*arrays: Array) -> bool:
    """Whether our kernels have the type of these arrays."""
    return all(item.dtype in _TOLERANCE for item in arrays)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Matrices in memory, a `step` apart: `along` says that a row lies together, not a column."""

    data: Array
    leading: int
    along: bool = True
    step: int = 0


def product(
    left: Matrix, right: Matrix, target: Matrix, sizes: tuple[int, int, int], count: int = 1
) -> None:
    """Puts a product of matrices of m by k and k by n elements into m by n ones, row by row."""
    m, n, k = sizes
    # Where B is narrow, A is read once only, and the time is that of reading it.
    form = "narrow" if n <= _NARROW else "wide"
    name = f"{form}_{'k' if left.along else 'm'}{'n' if right.along else 'k'}"
    grid = (-(-n // _COLUMNS[form]), -(-m // _ROWS), count)
    steps = (left.step, right.step, target.step)
    numbers = (m, n, k, left.leading, right.leading, target.leading, *steps)
    arrays = (left.data, right.data, target.data)
    _launch(name, grid, _THREADS[form], (*numbers, *arrays), target.data.dtype)


def gemm(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Products of matrices as views of `(count, rows, columns)`, of which an axis lies together."""
    (left, right), (target,) = inputs, outputs
    count, m, n = target.shape
    sides = [_view(left), _view(right), _view(target)]
    if sides[2].along:
        product(sides[0], sides[1], sides[2], (m, n, left.shape[2]), count)
        return
    # By columns, the target is the transpose of what the transposes give by rows.
    first, second, third = (
        Matrix(item.data, item.leading, not item.along, item.step) for item in sides
    )
    product(second, first, third, (n, m, left.shape[2]), count)


def _view(array: Array) -> Matrix:
    step, rows, columns = (stride // array.dtype.itemsize for stride in array.strides)
    along = rows != 1
    return Matrix(array, rows if along else columns, along, step if array.shape[0] > 1 else 0)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution's forward and backward calls by our kernels, for one window and no groups."""

    window: tuple[int, ...]
    """Padding, strides and dilations."""

    def forward(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        (x, w), (y,) = inputs, outputs
        images, k = y.shape[:2]
        taps, pixels = w[0].size, y[0, 0].size
        # A filter of one pixel reads the image as it lies, and columns would be a copy of it.
        if self._is_plain(w) and (pixels >= _FEW_PIXELS or images == 1):
            columns = Matrix(x, pixels, step=taps * pixels)
        else:
            columns = Matrix(self._columns(x, w, y), images * pixels, step=pixels)
        if pixels >= _FEW_PIXELS or images == 1:
            target = Matrix(y, pixels, step=k * pixels)
            product(Matrix(w, taps), columns, target, (k, pixels, taps), images)
            return
        # Few pixels of an image fill no vector, so those of all images go side by side.
        sideways = np.empty((k, images, pixels), y.dtype)
        target = Matrix(sideways, images * pixels)
        product(Matrix(w, taps), columns, target, (k, images * pixels, taps))
        _exchange(sideways, y, (k, images, pixels))

    def data(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """What a change of the output means for the image; the inputs are filters and change."""
        (w, dy), (dx,) = inputs, outputs
        images, k = dy.shape[:2]
        taps, pixels = w[0].size, dy[0, 0].size
        change = Matrix(_sideways(dy), images * pixels)
        columns = np.empty((taps, images * pixels), dy.dtype)
        left, target = Matrix(w, taps, along=False), Matrix(columns, images * pixels)
        if self._is_plain(w) and (pixels >= _FEW_PIXELS or images == 1):
            each, result = (
                Matrix(dy, pixels, step=k * pixels),
                Matrix(dx, pixels, step=taps * pixels),
            )
            product(left, each, result, (taps, pixels, k), images)
            return
        product(left, change, target, (taps, images * pixels, k))
        if self._is_plain(w):
            _exchange(columns, dx, (taps, images, pixels))
            return
        numbers = (*self._numbers(dx, w, dy), dx.shape[1], images)
        grid, block = (dx.shape[1], images), (_width(dx[0, 0].size),)
        _launch("image", grid, block, (*numbers, columns, dx), dx.dtype)

    def filter(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """What a change of the output means for the filters; the inputs are image and change."""
        (x, dy), (dw,) = inputs, outputs
        images, k = dy.shape[:2]
        taps, pixels = dw[0].size, images * dy[0, 0].size
        plain = self._is_plain(dw) and images == 1
        columns = x if plain else self._columns(x, dw, dy)
        left, right = Matrix(_sideways(dy), pixels), Matrix(columns, pixels, along=False)
        product(left, right, Matrix(dw, taps), (k, taps, pixels))

    def _is_plain(self, w: Array) -> bool:
        """Whether the columns are the image itself."""
        return w.shape[2:] == (1, 1) and self.window[:4] == (0, 0, 1, 1)

    def _columns(self, x: Array, w: Array, y: Array) -> Array:
        images, channels = x.shape[:2]
        columns = np.empty((w[0].size, images * y[0, 0].size), x.dtype)
        numbers = (*self._numbers(x, w, y), channels, images)
        grid, block = (w[0].size, images), (_width(y[0, 0].size),)
        _launch("patches", grid, block, (*numbers, x, columns), x.dtype)
        return columns

    def _numbers(self, x: Array, w: Array, y: Array) -> tuple[int, ...]:
        return (*x.shape[2:], *y.shape[2:], *w.shape[2:], *self.window)


def _sideways(y: Array) -> Array:
    """Images of planes as planes of images."""
    images, k = y.shape[:2]
    if images == 1:
        return y
    result = np.empty((k, images, y[0, 0].size), y.dtype)
    _exchange(y, result, (images, k, y[0, 0].size))
    return result


def _planes(x: Array) -> tuple[int, int, int]:
    """Images, channels, and pixels of a plane."""
    return x.shape[0], x.shape[1], x[0, 0].size


def _exchange(source: Array, target: Array, sizes: tuple[int, int, int]) -> None:
    first, second, size = sizes
    _launch(
        "exchange",
        (first, second),
        (_width(size),),
        (first, second, size, source, target),
        source.dtype,
    )


def batch_norm(epsilon: float, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Gives the normalised images, and for each channel mean, variance and inverse deviation."""
    (x, scale, bias), (y, mean, variance, inverse) = inputs, outputs
    _statistics(epsilon, x, (mean, variance, inverse))
    _normalize(x, y, (scale, bias, mean, inverse))


def batch_norm_by(epsilon: float, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Normalises by a mean and a variance that are known."""
    x, scale, bias, mean, variance = inputs
    inverse = (1 / np.sqrt(variance + x.dtype.type(epsilon))).astype(x.dtype)
    _normalize(x, outputs[0], (scale, bias, mean, inverse))


def batch_norm_back(epsilon: float, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Gives the changes of images, scale and bias."""
    (x, scale, dy), (dx, dscale, dbias) = inputs, outputs
    images, channels, size = _planes(x)
    mean, variance, inverse = (np.empty(channels, x.dtype) for _ in range(3))
    _statistics(epsilon, x, (mean, variance, inverse))
    arrays = (x, dy, dx, scale, dscale, dbias, mean, inverse)
    numbers = (images, channels, size)
    _launch("normalize_back", (channels,), (_width(size),), (*numbers, *arrays), x.dtype)


def _statistics(epsilon: float, x: Array, results: Sequence[Array]) -> None:
    images, channels, size = _planes(x)
    arguments: list[Number | Array] = [images, channels, size, x, epsilon, *results]
    _launch("statistics", (channels,), (_width(size),), arguments, x.dtype)


def _normalize(x: Array, y: Array, parameters: Sequence[Array]) -> None:
    images, channels, size = _planes(x)
    arguments: list[Number | Array] = [channels, size, x, y, *parameters]
    _launch("normalize", (channels, images), (_width(size),), arguments, x.dtype)


def pool(numbers: Sequence[Number], inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Maxima or means of windows; `numbers` are those of the descriptor."""
    (x,), (y,) = inputs, outputs
    window = _pool_window(numbers, x, y)
    arguments: list[Number | Array] = [int(numbers[0]), *window, x, y]
    _launch("pool", (x.shape[0] * x.shape[1],), (_width(y[0, 0].size),), arguments, x.dtype)


def pool_back(numbers: Sequence[Number], inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """What a change of the pooled images means for the images."""
    (x, dy), (dx,) = inputs, outputs
    y = np.empty_like(dy)
    pool(numbers, (x,), (y,))
    window = _pool_window(numbers, x, y)
    arguments: list[Number | Array] = [int(numbers[0]), *window, x, y, dy, dx]
    _launch("pool_back", (x.shape[0] * x.shape[1],), (_width(x[0, 0].size),), arguments, x.dtype)


def _pool_window(numbers: Sequence[Number], x: Array, y: Array) -> tuple[int, ...]:
    # Size, padding and strides as the descriptor has them; pooling has no dilation.
    return (*x.shape[2:], *y.shape[2:], *map(int, numbers[2:8]), 1, 1)


def activate(numbers: Sequence[Number], inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """An activation, element by element."""
    (x,), (y,) = inputs, outputs
    arguments = (int(numbers[0]), float(numbers[2]), x.size, x, y)
    _launch("activate", (-(-x.size // 256),), (256,), arguments, x.dtype)


def activate_back(
    numbers: Sequence[Number], inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    """What a change behind an activation means before it."""
    (x, dy), (dx,) = inputs, outputs
    y = np.empty_like(x)
    activate(numbers, (x,), (y,))
    arguments = (int(numbers[0]), float(numbers[2]), x.size, x, y, dy, dx)
    _launch("activate_back", (-(-x.size // 256),), (256,), arguments, x.dtype)


def softmax(numbers: Sequence[Number], inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Softmax or its logarithm, over channels or over all of an image."""
    (x,), (y,) = inputs, outputs
    arguments, grid = _softmax_shape(numbers, x)
    _launch("softmax", grid, (_width(arguments[2]),), (*arguments, x, y), x.dtype)


def softmax_back(
    numbers: Sequence[Number], inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    """What a change of a softmax means for what it is of; the inputs are result and change."""
    (y, dy), (dx,) = inputs, outputs
    arguments, grid = _softmax_shape(numbers, y)
    _launch("softmax_back", grid, (_width(arguments[2]),), (*arguments, y, dy, dx), y.dtype)


def _softmax_shape(
    numbers: Sequence[Number], x: Array
) -> tuple[tuple[bool, int, int], tuple[int, int]]:
    algorithm, mode = map(int, numbers)
    images, channels, size = _planes(x)
    count, inner = (channels, size) if mode == 1 else (channels * size, 1)
    return (algorithm == 2, count, inner), (-(-inner // _width(inner)), images)
