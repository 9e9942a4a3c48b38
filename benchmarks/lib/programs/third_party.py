"""Functions of other people's libraries, as their users call them: imported, never copied.

Each maker imports its library and gives a function with arguments at sizes that are common where it
is used. A `key` that only fixes initial weights is drawn once and is no argument.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from lib.programs.subject import FORMULAS, Function, Rng, Subjects

Array: TypeAlias = jax.Array
Made: TypeAlias = tuple[Function, tuple[Any, ...]]

SUBJECTS = Subjects()


def normal(rng: Rng, *shape: int, scale: float = 1.0) -> Array:
    return jnp.asarray(rng.standard_normal(shape) * scale, jnp.float32)


def uniform(rng: Rng, low: float, high: float, *shape: int) -> Array:
    return jnp.asarray(rng.uniform(low, high, shape), jnp.float32)


def integers(rng: Rng, high: int, *shape: int) -> Array:
    return jnp.asarray(rng.integers(0, high, shape), jnp.int32)


def shares(rng: Rng, rows: int, columns: int) -> Array:
    return jnp.asarray(rng.dirichlet(np.ones(columns), rows), jnp.float32)


def bits(rng: Rng, *shape: int) -> Array:
    return jnp.asarray(rng.integers(0, 2, shape), jnp.float32)


def key(rng: Rng) -> Array:
    return jax.random.key(int(rng.integers(1 << 31)))


def network_weights(rng: Rng) -> dict[str, Array]:
    """Weights, or gradients, of a network of three layers."""
    sizes = (256, 512, 512, 64)
    return {
        f"layer {at}": normal(rng, sizes[at], sizes[at + 1], scale=sizes[at] ** -0.5)
        for at in range(3)
    }


# optax: losses


@SUBJECTS.add("optax")
def softmax_cross_entropy(rng: Rng) -> Made:
    import optax

    return optax.softmax_cross_entropy, (normal(rng, 512, 1000), shares(rng, 512, 1000))


@SUBJECTS.add("optax")
def integer_cross_entropy(rng: Rng) -> Made:
    import optax

    arguments = (normal(rng, 512, 1000), integers(rng, 1000, 512))
    return optax.softmax_cross_entropy_with_integer_labels, arguments


@SUBJECTS.add("optax")
def sigmoid_cross_entropy(rng: Rng) -> Made:
    import optax

    return optax.sigmoid_binary_cross_entropy, (normal(rng, 512, 512), bits(rng, 512, 512))


@SUBJECTS.add("optax")
def focal_loss(rng: Rng) -> Made:
    import optax

    return optax.sigmoid_focal_loss, (normal(rng, 512, 512), bits(rng, 512, 512))


@SUBJECTS.add("optax")
def poly_loss(rng: Rng) -> Made:
    import optax

    return optax.losses.poly_loss_cross_entropy, (normal(rng, 512, 1000), shares(rng, 512, 1000))


@SUBJECTS.add("optax")
def huber_loss(rng: Rng) -> Made:
    import optax

    return optax.huber_loss, (normal(rng, 512, 512), normal(rng, 512, 512))


@SUBJECTS.add("optax")
def log_cosh(rng: Rng) -> Made:
    import optax

    return optax.log_cosh, (normal(rng, 512, 512), normal(rng, 512, 512))


@SUBJECTS.add("optax")
def cosine_similarity(rng: Rng) -> Made:
    import optax

    return optax.cosine_similarity, (normal(rng, 1024, 256), normal(rng, 1024, 256))


@SUBJECTS.add("optax")
def kl_divergence(rng: Rng) -> Made:
    import optax

    logits = jax.nn.log_softmax(normal(rng, 512, 1000))
    return optax.kl_divergence, (logits, shares(rng, 512, 1000))


@SUBJECTS.add("optax")
def ntxent(rng: Rng) -> Made:
    import optax

    labels = jnp.tile(jnp.arange(128), 2)
    return lambda x: optax.losses.ntxent(x, labels), (normal(rng, 256, 128),)


@SUBJECTS.add("optax")
def ctc_loss(rng: Rng) -> Made:
    import optax

    def loss(logits: Array, labels: Array) -> Array:
        absent = jnp.zeros(logits.shape[:2]), jnp.zeros(labels.shape)
        return optax.ctc_loss(logits, absent[0], labels, absent[1])

    return loss, (normal(rng, 8, 64, 32), integers(rng, 31, 8, 16) + 1)


@SUBJECTS.add("optax")
def hinge_loss(rng: Rng) -> Made:
    import optax

    return optax.losses.hinge_loss, (normal(rng, 512, 512), 2 * bits(rng, 512, 512) - 1)


# optax: updates and projections


def update(rng: Rng, optimizer: Any) -> Made:
    """A step of an optimizer, and its weights after that."""
    import optax

    weights = network_weights(rng)

    def step(gradients: Any, state: Any, weights: Any) -> Any:
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    return step, (network_weights(rng), optimizer.init(weights), weights)


@SUBJECTS.add("optax")
def adamw(rng: Rng) -> Made:
    import optax

    return update(rng, optax.adamw(1e-3))


@SUBJECTS.add("optax")
def lion(rng: Rng) -> Made:
    import optax

    return update(rng, optax.lion(1e-4))


@SUBJECTS.add("optax")
def lamb(rng: Rng) -> Made:
    import optax

    return update(rng, optax.lamb(1e-3))


@SUBJECTS.add("optax")
def clipped_sgd(rng: Rng) -> Made:
    import optax

    return update(rng, optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9)))


@SUBJECTS.add("optax")
def projection_simplex(rng: Rng) -> Made:
    import optax

    return optax.projections.projection_simplex, (normal(rng, 4096),)


# rlax


@SUBJECTS.add("rlax")
def vtrace(rng: Rng) -> Made:
    import rlax

    batched = jax.vmap(rlax.vtrace, in_axes=1, out_axes=1)
    steps = (64, 32)
    values = [normal(rng, *steps) for _ in range(3)]
    return batched, (*values, uniform(rng, 0.9, 1.0, *steps), uniform(rng, 0.5, 1.5, *steps))


@SUBJECTS.add("rlax")
def lambda_returns(rng: Rng) -> Made:
    import rlax

    batched = jax.vmap(lambda r, d, v: rlax.lambda_returns(r, d, v, 0.95), in_axes=1, out_axes=1)
    return batched, (normal(rng, 64, 32), uniform(rng, 0.9, 1.0, 64, 32), normal(rng, 64, 32))


@SUBJECTS.add("rlax")
def generalized_advantages(rng: Rng) -> Made:
    import rlax

    def advantages(rewards: Array, discounts: Array, values: Array) -> Array:
        return rlax.truncated_generalized_advantage_estimation(rewards, discounts, 0.95, values)

    batched = jax.vmap(advantages, in_axes=1, out_axes=1)
    return batched, (normal(rng, 64, 32), uniform(rng, 0.9, 1.0, 64, 32), normal(rng, 65, 32))


@SUBJECTS.add("rlax")
def clipped_surrogate(rng: Rng) -> Made:
    import rlax

    ratios, advantages = uniform(rng, 0.5, 1.5, 4096), normal(rng, 4096)
    return lambda r, a: rlax.clipped_surrogate_pg_loss(r, a, 0.2), (ratios, advantages)


@SUBJECTS.add("rlax")
def policy_gradient(rng: Rng) -> Made:
    import rlax

    arguments = (normal(rng, 2048, 18), integers(rng, 18, 2048), normal(rng, 2048))
    return lambda x, a, adv: rlax.policy_gradient_loss(x, a, adv, jnp.ones_like(adv)), arguments


@SUBJECTS.add("rlax")
def entropy_loss(rng: Rng) -> Made:
    import rlax

    return lambda x: rlax.entropy_loss(x, jnp.ones(x.shape[0])), (normal(rng, 2048, 18),)


@SUBJECTS.add("rlax")
def categorical_projection(rng: Rng) -> Made:
    import rlax

    atoms = jnp.linspace(-10.0, 10.0, 51)

    def project(moved: Array, probabilities: Array) -> Array:
        return jax.vmap(rlax.categorical_l2_project, in_axes=(0, 0, None))(
            moved, probabilities, atoms
        )

    moved = 0.9 * atoms + normal(rng, 256, 1)
    return project, (moved, shares(rng, 256, 51))


@SUBJECTS.add("rlax")
def quantile_regression(rng: Rng) -> Made:
    import rlax

    batched = jax.vmap(rlax.quantile_regression_loss, in_axes=(0, None, 0))
    levels = (jnp.arange(64) + 0.5) / 64
    return lambda a, b: batched(a, levels, b), (normal(rng, 128, 64), normal(rng, 128, 64))


@SUBJECTS.add("rlax")
def double_q_learning(rng: Rng) -> Made:
    import rlax

    batched = jax.vmap(rlax.double_q_learning)
    scores = [normal(rng, 1024, 18) for _ in range(3)]
    actions, rewards = integers(rng, 18, 1024), normal(rng, 1024)
    return batched, (scores[0], actions, rewards, uniform(rng, 0.9, 1.0, 1024), *scores[1:])


# distrax and numpyro


@SUBJECTS.add("distrax")
def diagonal_normal(rng: Rng) -> Made:
    import distrax

    def log_density(x: Array, mean: Array, scale: Array) -> Array:
        return distrax.MultivariateNormalDiag(mean, scale).log_prob(x)

    positive = uniform(rng, 0.5, 2.0, 1024, 256)
    return log_density, (normal(rng, 1024, 256), normal(rng, 1024, 256), positive)


@SUBJECTS.add("distrax")
def categorical_entropy(rng: Rng) -> Made:
    import distrax

    return lambda x: distrax.Categorical(logits=x).entropy(), (normal(rng, 1024, 256),)


@SUBJECTS.add("distrax")
def normal_divergence(rng: Rng) -> Made:
    import distrax

    def divergence(mean: Array, scale: Array) -> Array:
        q = distrax.MultivariateNormalDiag(mean, scale)
        p = distrax.MultivariateNormalDiag(jnp.zeros_like(mean), jnp.ones_like(scale))
        return q.kl_divergence(p)

    return divergence, (normal(rng, 1024, 256), uniform(rng, 0.5, 2.0, 1024, 256))


@SUBJECTS.add("distrax")
def normal_mixture(rng: Rng) -> Made:
    import distrax

    def log_density(x: Array, logits: Array, mean: Array, scale: Array) -> Array:
        components = distrax.Normal(mean, scale)
        return distrax.MixtureSameFamily(distrax.Categorical(logits), components).log_prob(x)

    shape = (2048, 16)
    parameters = (normal(rng, *shape), normal(rng, *shape), uniform(rng, 0.5, 2.0, *shape))
    return log_density, (normal(rng, 2048), *parameters)


@SUBJECTS.add("distrax")
def tanh_normal(rng: Rng) -> Made:
    import distrax

    def log_density(x: Array, mean: Array, scale: Array) -> Array:
        squashed = distrax.Transformed(distrax.Normal(mean, scale), distrax.Tanh())
        return squashed.log_prob(x).sum(-1)

    shape = (2048, 32)
    arguments = (normal(rng, *shape), uniform(rng, 0.5, 2.0, *shape))
    return log_density, (uniform(rng, -0.95, 0.95, *shape), *arguments)


@SUBJECTS.add("numpyro")
def student_t(rng: Rng) -> Made:
    import numpyro.distributions as dist

    def log_density(x: Array, mean: Array, scale: Array) -> Array:
        return dist.StudentT(4.0, mean, scale).log_prob(x).sum()

    return log_density, (normal(rng, 65536), normal(rng, 65536), uniform(rng, 0.5, 2.0, 65536))


@SUBJECTS.add("numpyro")
def gamma_density(rng: Rng) -> Made:
    import numpyro.distributions as dist

    def log_density(x: Array, shape: Array, rate: Array) -> Array:
        return dist.Gamma(shape, rate).log_prob(x).sum()

    return log_density, tuple(uniform(rng, 0.5, 3.0, 16384) for _ in range(3))


@SUBJECTS.add("numpyro")
def dirichlet_density(rng: Rng) -> Made:
    import numpyro.distributions as dist

    def log_density(x: Array, concentration: Array) -> Array:
        return dist.Dirichlet(concentration).log_prob(x)

    return log_density, (shares(rng, 1024, 32), uniform(rng, 0.5, 3.0, 1024, 32))


@SUBJECTS.add("numpyro")
def logistic_regression(rng: Rng) -> Made:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def model(x: Array, y: Array) -> None:
        weights = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)

    def joint(weights: Array, x: Array, y: Array) -> Array:
        density: Array = log_density(model, (x, y), {}, {"w": weights})[0]
        return density

    return joint, (normal(rng, 64, scale=0.1), normal(rng, 4096, 64), bits(rng, 4096))


# flax, haiku and equinox


def flax_layer(rng: Rng, layer: Any, *inputs: Array) -> Made:
    return layer.apply, (layer.init(key(rng), *inputs), *inputs)


@SUBJECTS.add("flax")
def flax_layer_norm(rng: Rng) -> Made:
    from flax import linen as nn

    return flax_layer(rng, nn.LayerNorm(), normal(rng, 512, 1024))


@SUBJECTS.add("flax")
def flax_rms_norm(rng: Rng) -> Made:
    from flax import linen as nn

    return flax_layer(rng, nn.RMSNorm(), normal(rng, 512, 1024))


@SUBJECTS.add("flax")
def flax_group_norm(rng: Rng) -> Made:
    from flax import linen as nn

    return flax_layer(rng, nn.GroupNorm(num_groups=8), normal(rng, 4, 28, 28, 64))


@SUBJECTS.add("flax")
def flax_batch_norm(rng: Rng) -> Made:
    from flax import linen as nn

    return flax_layer(rng, nn.BatchNorm(use_running_average=True), normal(rng, 4, 28, 28, 64))


@SUBJECTS.add("flax")
def flax_attention(rng: Rng) -> Made:
    from flax import linen as nn

    layer = nn.MultiHeadDotProductAttention(num_heads=8)
    x = normal(rng, 2, 128, 256)
    return flax_layer(rng, layer, x, x)


@SUBJECTS.add("flax")
def flax_embedding(rng: Rng) -> Made:
    from flax import linen as nn

    return flax_layer(rng, nn.Embed(8192, 256), integers(rng, 8192, 8, 128))


@SUBJECTS.add("flax")
def flax_convolution(rng: Rng) -> Made:
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Array) -> Array:
            return nn.relu(nn.Conv(64, (3, 3))(x))

    return flax_layer(rng, Block(), normal(rng, 4, 28, 28, 32))


def haiku_layer(rng: Rng, build: Function, *inputs: Array) -> Made:
    import haiku as hk

    layer = hk.without_apply_rng(hk.transform(build))
    return layer.apply, (layer.init(key(rng), *inputs), *inputs)


@SUBJECTS.add("dm-haiku", "haiku")
def haiku_rms_norm(rng: Rng) -> Made:
    import haiku as hk

    return haiku_layer(rng, lambda x: hk.RMSNorm(-1)(x), normal(rng, 512, 1024))


@SUBJECTS.add("dm-haiku", "haiku")
def haiku_mlp(rng: Rng) -> Made:
    import haiku as hk

    return haiku_layer(rng, lambda x: hk.nets.MLP([512, 512, 10])(x), normal(rng, 128, 784))


@SUBJECTS.add("dm-haiku", "haiku")
def haiku_gru_step(rng: Rng) -> Made:
    import haiku as hk

    return haiku_layer(
        rng, lambda x, h: hk.GRU(256)(x, h), normal(rng, 64, 256), normal(rng, 64, 256)
    )


def equinox_layer(layer: Any, *inputs: Array) -> Made:
    """A layer that is applied to each of a batch; its arrays are arguments."""
    import equinox as eqx

    arrays, form = eqx.partition(layer, eqx.is_array)

    def apply(arrays: Any, *inputs: Array) -> Any:
        return jax.vmap(eqx.combine(arrays, form))(*inputs)

    return apply, (arrays, *inputs)


@SUBJECTS.add("equinox")
def equinox_mlp(rng: Rng) -> Made:
    import equinox as eqx

    layer = eqx.nn.MLP(128, 10, 256, 2, activation=jax.nn.gelu, key=key(rng))
    return equinox_layer(layer, normal(rng, 128, 128))


@SUBJECTS.add("equinox")
def equinox_lstm_step(rng: Rng) -> Made:
    import equinox as eqx

    cell = eqx.nn.LSTMCell(128, 256, key=key(rng))

    def step(weights: Any, x: Array, hidden: Array, state: Array) -> Any:
        return jax.vmap(weights)(x, (hidden, state))

    return step, (cell, normal(rng, 64, 128), normal(rng, 64, 256), normal(rng, 64, 256))


@SUBJECTS.add("equinox")
def equinox_attention(rng: Rng) -> Made:
    import equinox as eqx

    layer = eqx.nn.MultiheadAttention(8, 256, key=key(rng))
    x = normal(rng, 2, 128, 256)
    return equinox_layer(layer, x, x, x)


@SUBJECTS.add("equinox")
def equinox_rotary(rng: Rng) -> Made:
    import equinox as eqx

    layer = eqx.nn.RotaryPositionalEmbedding(64)
    return lambda x: jax.vmap(layer)(x), (normal(rng, 16, 256, 64),)


# dm-pix and einops


@SUBJECTS.add("dm-pix")
def ssim(rng: Rng) -> Made:
    import dm_pix as pix

    pictures = uniform(rng, 0.0, 1.0, 2, 128, 128, 3)
    noisy = jnp.clip(pictures + normal(rng, 2, 128, 128, 3, scale=0.05), 0, 1)
    return pix.ssim, (pictures, noisy)


@SUBJECTS.add("dm-pix")
def gaussian_blur(rng: Rng) -> Made:
    import dm_pix as pix

    return lambda x: pix.gaussian_blur(x, 2.0, 9), (uniform(rng, 0.0, 1.0, 128, 128, 3),)


@SUBJECTS.add("dm-pix")
def rgb_to_hsv(rng: Rng) -> Made:
    import dm_pix as pix

    return pix.rgb_to_hsv, (uniform(rng, 0.0, 1.0, 4, 128, 128, 3),)


@SUBJECTS.add("dm-pix")
def grayscale(rng: Rng) -> Made:
    import dm_pix as pix

    return pix.rgb_to_grayscale, (uniform(rng, 0.0, 1.0, 4, 128, 128, 3),)


@SUBJECTS.add("dm-pix")
def psnr(rng: Rng) -> Made:
    import dm_pix as pix

    return pix.psnr, (
        uniform(rng, 0.0, 1.0, 4, 128, 128, 3),
        uniform(rng, 0.0, 1.0, 4, 128, 128, 3),
    )


@SUBJECTS.add("einops")
def einops_patches(rng: Rng) -> Made:
    from einops import rearrange

    def patches(x: Array, w: Array) -> Array:
        return rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=16, q=16) @ w

    return patches, (normal(rng, 4, 128, 128, 3), normal(rng, 768, 256, scale=768**-0.5))


@SUBJECTS.add("einops")
def einops_pool(rng: Rng) -> Made:
    from einops import reduce

    def pool(x: Array) -> Array:
        pooled: Array = reduce(x, "b (h p) (w q) c -> b h w c", "mean", p=2, q=2)
        return pooled

    return pool, (normal(rng, 4, 64, 64, 64),)


# tinygp


def squared_kernel(scale: float) -> Any:
    from tinygp import kernels

    return kernels.ExpSquared(scale)


@SUBJECTS.add("tinygp")
def squared_exponential(rng: Rng) -> Made:
    return lambda x, y: squared_kernel(1.5)(x, y), (normal(rng, 512, 8), normal(rng, 512, 8))


@SUBJECTS.add("tinygp")
def matern(rng: Rng) -> Made:
    from tinygp import kernels

    def gram(x: Array, y: Array) -> Array:
        gram: Array = kernels.Matern52(1.5)(x, y)
        return gram

    return gram, (normal(rng, 512, 8), normal(rng, 512, 8))


@SUBJECTS.add("tinygp")
def process_likelihood(rng: Rng) -> Made:
    from tinygp import GaussianProcess

    def likelihood(x: Array, y: Array) -> Array:
        density: Array = GaussianProcess(squared_kernel(1.5), x, diag=0.1).log_probability(y)
        return density

    return likelihood, (normal(rng, 256, 8), normal(rng, 256))


# jax itself


@SUBJECTS.add(FORMULAS)
def jax_attention(rng: Rng) -> Made:
    heads = [normal(rng, 2, 128, 8, 32) for _ in range(3)]
    return jax.nn.dot_product_attention, tuple(heads)


@SUBJECTS.add(FORMULAS)
def logsumexp(rng: Rng) -> Made:
    return lambda x: jax.scipy.special.logsumexp(x, axis=-1), (normal(rng, 512, 1024),)


@SUBJECTS.add(FORMULAS)
def multivariate_density(rng: Rng) -> Made:
    from jax.scipy.stats import multivariate_normal

    half = rng.standard_normal((32, 32))
    covariance = jnp.asarray(half @ half.T / 32 + np.eye(32), jnp.float32)
    return multivariate_normal.logpdf, (normal(rng, 2048, 32), normal(rng, 32), covariance)


@SUBJECTS.add(FORMULAS)
def beta_density(rng: Rng) -> Made:
    from jax.scipy.stats import beta

    parameters = (uniform(rng, 0.5, 3.0, 16384), uniform(rng, 0.5, 3.0, 16384))
    return beta.logpdf, (uniform(rng, 0.01, 0.99, 16384), *parameters)


@SUBJECTS.add(FORMULAS)
def uniform_density(rng: Rng) -> Made:
    from jax.scipy.stats import uniform as flat

    return lambda x: flat.logpdf(x).sum(-1), (uniform(rng, -0.1, 1.1, 1024, 64),)


@SUBJECTS.add(FORMULAS)
def image_resize(rng: Rng) -> Made:
    def resize(x: Array) -> Array:
        return jax.image.resize(x, (4, 112, 112, 3), "bilinear")

    return resize, (normal(rng, 4, 224, 224, 3),)


@SUBJECTS.add(FORMULAS)
def kernel_density(rng: Rng) -> Made:
    from jax.scipy.stats import gaussian_kde

    return lambda data, x: gaussian_kde(data)(x), (normal(rng, 4, 512), normal(rng, 4, 256))


@SUBJECTS.add(FORMULAS)
def convolve2d(rng: Rng) -> Made:
    from jax.scipy.signal import convolve2d

    return lambda x, k: convolve2d(x, k, mode="same"), (normal(rng, 256, 256), normal(rng, 7, 7))


@SUBJECTS.add(FORMULAS)
def map_coordinates(rng: Rng) -> Made:
    from jax.scipy.ndimage import map_coordinates

    def sample(x: Array, places: Array) -> Array:
        return map_coordinates(x, [places[0], places[1]], order=1, mode="nearest")

    return sample, (normal(rng, 256, 256), uniform(rng, 0.0, 255.0, 2, 16384))
