"""Models on this machine: files that are fetched with a pinned hash, run by llama.cpp on loopback.

What runs a model is loaded when it is first used: whether there is one is asked by quick commands too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from callsheet.ports.models.local.catalogue import MODELS, LocalFile
from callsheet.ports.models.local.presence import Presence, look

if TYPE_CHECKING:
    from callsheet.ports.models.local.model import LocalModel, LocalSettings, open_local

__all__ = ["MODELS", "LocalFile", "LocalModel", "LocalSettings", "Presence", "look", "open_local"]


def __getattr__(name: str) -> object:
    if name in ("LocalModel", "LocalSettings", "open_local"):
        return getattr(import_module("callsheet.ports.models.local.model"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
