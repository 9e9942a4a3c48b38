"""What the tuner is compared with JAX on: seven workloads, the operators of MetaSchedule's paper,
and two models.

Each is a JAX function of arrays as a user writes it, with the types that it is called on; sizes are
those that TVM's own benchmarks have. `jax.jit` of the function is what a kernel has to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lib import transformer
from lib.programs import formulas

Workload: TypeAlias = tuple[Callable[..., jax.Array], tuple[tuple[int, ...], ...]]
"""A function, and the shapes of its arrays, all of float32."""
Model: TypeAlias = Callable[[], tuple[Callable[..., jax.Array], tuple[Any, ...]]]
"""Makes a function and its arguments."""


def dense_bias_gelu(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return jax.nn.gelu(x @ w + b)


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=-1)


def rms_matmul(x: jax.Array, g: jax.Array, w: jax.Array) -> jax.Array:
    scale = lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return (x * scale * g) @ w


def _convolution(
    dimensions: int, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    axes = "DHW"[-dimensions:]

    def convolved(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x, w, (stride,) * dimensions, [(padding, padding)] * dimensions,
            rhs_dilation=(dilation,) * dimensions, feature_group_count=groups,
            dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
        )  # fmt: skip

    return convolved


def transposed_convolution(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(
        x, w, (1, 1), [(2, 2), (2, 2)], lhs_dilation=(2, 2),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip


def convolution_norm_relu(x: jax.Array, w: jax.Array, s: jax.Array, b: jax.Array) -> jax.Array:
    return jax.nn.relu(_convolution(2, 2, 3)(x, w) * s + b)


def transposed_batched_product(q: jax.Array, k: jax.Array) -> jax.Array:
    """Of heads in the second last axis, as attention has them before its softmax."""
    return jnp.einsum("bihd,bjhd->bhij", q, k)


def norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(x * x, axis=(1, 2)))


WORKLOADS: Mapping[str, Workload] = {
    "matmul 512": (jnp.matmul, ((512, 512), (512, 512))),
    "matmul 1024": (jnp.matmul, ((1024, 1024), (1024, 1024))),
    "conv2d": (_convolution(2, 1, 1), ((1, 56, 56, 64), (3, 3, 64, 64))),
    "batched matmul": (jnp.matmul, ((12, 128, 64), (12, 64, 128))),
    "dense bias gelu": (dense_bias_gelu, ((128, 768), (768, 3072), (3072,))),
    "softmax": (softmax, ((1024, 1024),)),
    "rms_norm matmul": (rms_matmul, ((16, 4096), (4096,), (4096, 4096))),
}
OPERATORS: Mapping[str, Workload] = {
    "C1D": (_convolution(1, 2, 1), ((1, 256, 64), (3, 64, 128))),
    "C2D": (_convolution(2, 2, 3), ((1, 224, 224, 3), (7, 7, 3, 64))),
    "C3D": (_convolution(3, 2, 3), ((1, 16, 224, 224, 3), (7, 7, 7, 3, 64))),
    "DEP": (_convolution(2, 1, 1, groups=32), ((1, 112, 112, 32), (3, 3, 1, 32))),
    "DIL": (_convolution(2, 2, 3, 2), ((1, 224, 224, 3), (7, 7, 3, 64))),
    "GMM": (jnp.matmul, ((1, 128, 128), (1, 128, 128))),
    "GRP": (_convolution(2, 2, 1, groups=4), ((1, 56, 56, 64), (3, 3, 16, 128))),
    "T2D": (transposed_convolution, ((1, 4, 4, 512), (4, 4, 512, 256))),
    "CBR": (convolution_norm_relu, ((1, 224, 224, 3), (7, 7, 3, 64), (64,), (64,))),
    "TBG": (transposed_batched_product, ((1, 128, 12, 64), (1, 128, 12, 64))),
    "NRM": (norm, ((1, 256, 256),)),
    "SFM": (softmax, ((256, 256),)),
}


def twelve_layers() -> tuple[Callable[..., jax.Array], tuple[Any, ...]]:
    """A transformer of twelve layers in a loop, of 128 tokens."""
    random = np.random.default_rng(0)

    def weights(shape: tuple[int, ...]) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape) * 0.05, jnp.float32)

    tokens = jnp.asarray(random.integers(0, 1024, (1, 128)))
    return transformer.transformer, transformer.arguments(12, 256, 1024, 1024, tokens, weights)


def resnet_block() -> tuple[Callable[..., jax.Array], tuple[Any, ...]]:
    """Two convolutions of 64 channels with their norms, of four images."""
    return formulas.resnet_block(np.random.default_rng(0))


MODELS: Mapping[str, Model] = {
    "transformer of 12 layers": twelve_layers,
    "ResNet block": resnet_block,
}


def types(workload: Workload) -> tuple[Any, ...]:
    """The types of its arrays, as jax has them."""
    return tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in workload[1])
