"""Workers on other machines: what a transport has to do, and everything that it need not know."""

from __future__ import annotations
