"""Local models: files fetched with a pinned hash, run by llama.cpp on the loopback interface.

The runner is imported at first use, because fast commands also ask whether there is a local model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from callsheet.ports.models.local.catalogue import MODELS, Availability, LocalFile, detect

if TYPE_CHECKING:
    from callsheet.ports.models.local.model import LocalModel, LocalSettings, open_local

__all__ = ["MODELS", "Availability", "LocalFile", "LocalModel", "LocalSettings", "detect", "open_local"]


def _loaded(name: str) -> object:
    if name in ("LocalModel", "LocalSettings", "open_local"):
        return getattr(import_module("callsheet.ports.models.local.model"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` reports no misspelled name
    __getattr__ = _loaded
