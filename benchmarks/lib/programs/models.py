"""The twelve models and three training steps of `benchmarks/models.py`.

Where a model's library is installed it comes from there, and else from `formulas`, which has all of
them.
"""

from __future__ import annotations

from importlib.util import find_spec

import jax
import jax.numpy as jnp
from lib.programs import formulas
from lib.programs.formulas import BATCH, HEADS, LENGTH, WIDTH, Made, normal, tokens
from lib.programs.subject import FORMULAS, Maker, Rng, Subjects

SUBJECTS = Subjects()
TRAINING = ("mlp_loss", "encoder_loss", "bert_loss")


def from_library(library: str, module: str, formula: Maker, make: Maker) -> None:
    """Declares a model under the name of its formula."""
    installed = find_spec(module) is not None
    make.__name__ = formula.__name__
    SUBJECTS.add(library if installed else FORMULAS, module)(make if installed else formula)


# From flax


def flax_block(rng: Rng) -> Made:
    return flax_blocks(rng, 1, last_norm=False)


def flax_encoder(rng: Rng) -> Made:
    return flax_blocks(rng, 2, last_norm=True)


def flax_blocks(rng: Rng, count: int, *, last_norm: bool) -> Made:
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            h = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS)(h, h)
            h = nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x)))
            return x + nn.Dense(WIDTH)(h)

    class Encoder(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            for _ in range(count):
                x = Block()(x)
            return nn.LayerNorm()(x) if last_norm else x

    x = tokens(rng)
    model = Encoder()
    weights = model.init(jax.random.key(int(rng.integers(1 << 31))), x)
    return model.apply, (weights, x)


def flax_lstm(rng: Rng) -> Made:
    from flax import linen as nn

    return flax_recurrent(rng, nn.OptimizedLSTMCell(WIDTH))


def flax_gru(rng: Rng) -> Made:
    from flax import linen as nn

    return flax_recurrent(rng, nn.GRUCell(WIDTH))


def flax_recurrent(rng: Rng, cell: object) -> Made:
    from flax import linen as nn

    model, x = nn.RNN(cell), normal(rng, 8, 32, WIDTH)
    return model.apply, (model.init(jax.random.key(int(rng.integers(1 << 31))), x), x)


# From haiku


def haiku_attention(rng: Rng) -> Made:
    import haiku as hk

    def attention_block(x: jax.Array) -> jax.Array:
        h = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)
        scaling = hk.initializers.VarianceScaling(1.0)
        attention = hk.MultiHeadAttention(HEADS, WIDTH // HEADS, w_init=scaling)
        return x + attention(h, h, h)

    model = hk.without_apply_rng(hk.transform(attention_block))
    x = normal(rng, BATCH, LENGTH, WIDTH).astype(jnp.float32)
    return model.apply, (model.init(jax.random.key(int(rng.integers(1 << 31))), x), x)


from_library("flax", "flax", formulas.transformer_block, flax_block)
from_library("flax", "flax", formulas.encoder, flax_encoder)
for formula in (
    *(formulas.gpt2_block, formulas.bert_layer, formulas.llama_layer, formulas.t5_layer),
):
    SUBJECTS.add(FORMULAS)(formula)
from_library("dm-haiku", "haiku", formulas.attention_block, haiku_attention)
for formula in (formulas.resnet_block, formulas.vit_block, formulas.mlp_mixer):
    SUBJECTS.add(FORMULAS)(formula)
from_library("flax", "flax", formulas.lstm, flax_lstm)
from_library("flax", "flax", formulas.gru, flax_gru)
for formula in (formulas.mlp_loss, formulas.encoder_loss, formulas.bert_loss):
    SUBJECTS.add(FORMULAS)(formula)
