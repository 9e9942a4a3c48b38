"""What can be wrong with CUDA code, or with how it is launched."""

from __future__ import annotations

from ..errors import AiosearchError
from .ir.operations import NOWHERE, SourceLocation


class CudaError(AiosearchError):
    """Base of what `aiosearch.cuda` raises."""


class SourceError(CudaError):
    """The text is no C++, or a function that was asked for is absent."""


class AbsentFunction(SourceError, AttributeError):
    """The text has no function of a name, which `hasattr` of a module asks for."""


class UnsupportedConstruct(CudaError):
    """A construct that is outside of what is translated: names it, its file and its line."""

    def __init__(self, construct: str, location: SourceLocation = NOWHERE) -> None:
        self.construct = construct
        self.location = location
        super().__init__(construct, location)

    def __str__(self) -> str:
        return f"{self.location}: {self.construct} is not supported"


class LaunchError(CudaError):
    """A kernel was launched with a shape, arguments or arrays that it does not take."""


class TextError(CudaError):
    """A line of the IR's text form cannot be read."""
