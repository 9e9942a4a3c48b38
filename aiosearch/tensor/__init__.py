"""The tensor language: programs of operators and of custom kernels, as immutable values."""

from __future__ import annotations

from .algebra import Algebra, Function
from .errors import FormatError, LabelError, ShapeError, TensorError, UnknownOperator
from .evaluation import evaluate
from .floats import Floats
from .mugraph import ACCUMULATORS, Block, Kernel, read, write
from .operator import OPERATORS, Operator
from .operators import convolution as _convolution
from .operators import data_movement as _structure
from .operators import indexing as _indexing
from .operators import pointwise as _pointwise
from .operators import reductions as _reductions
from .sizes import Dim, Size
from .terms import Program, Term, apply, literal, tensor, walk
from .types import DType, Place, TensorType

__all__ = [
    "ACCUMULATORS",
    "OPERATORS",
    "Algebra",
    "Block",
    "DType",
    "Dim",
    "Floats",
    "FormatError",
    "Function",
    "Kernel",
    "LabelError",
    "Operator",
    "Place",
    "Program",
    "ShapeError",
    "Size",
    "TensorError",
    "TensorType",
    "Term",
    "UnknownOperator",
    "apply",
    "evaluate",
    "literal",
    "read",
    "tensor",
    "walk",
    "write",
]

del _convolution, _indexing, _pointwise, _reductions, _structure
