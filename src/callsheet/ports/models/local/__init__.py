"""Models on this machine: files that are fetched with a pinned hash, run by llama.cpp on loopback."""

from callsheet.ports.models.local.catalogue import MODELS, LocalFile
from callsheet.ports.models.local.model import LocalModel, LocalSettings, open_local
from callsheet.ports.models.local.presence import Presence, look

__all__ = ["MODELS", "LocalFile", "LocalModel", "LocalSettings", "Presence", "look", "open_local"]
