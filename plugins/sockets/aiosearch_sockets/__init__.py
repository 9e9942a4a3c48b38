"""Authenticated TCP links between hosts: one listens, the others call, and all share a token."""

from __future__ import annotations

from .calling import call
from .listening import TcpListener
from .secure import FrameError, MismatchError, Secure
from .tokens import new_token, own_token, read_token

__all__ = [
    "FrameError",
    "MismatchError",
    "Secure",
    "TcpListener",
    "call",
    "new_token",
    "own_token",
    "read_token",
]
