"""Exact arithmetic over a random prime field, on which `compare_fields` evaluates programs.

`Fields` is the algebra of arrays of its elements, `ExtensionField` the field with symbols, and
`random_prime` and `random_elements` give what is drawn, the same for the same seed.
"""

from .array_algebra import Array, Fields, array
from .extension_field import ExponentialSum, ExtensionField, FieldObstacle, Value
from .random_primes import elements as random_elements
from .random_primes import prime as random_prime
from .scalar_functions import UNDEFINED

__all__ = [
    "UNDEFINED",
    "Array",
    "ExponentialSum",
    "ExtensionField",
    "FieldObstacle",
    "Fields",
    "Value",
    "array",
    "random_elements",
    "random_prime",
]
