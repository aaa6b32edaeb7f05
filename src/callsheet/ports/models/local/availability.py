"""Reports whether local models can be used, for `callsheet doctor` and the choice of a default model.

No process is started and no model file is read.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet.ports.models.local.places import fetched, models_folder
from callsheet.ports.models.local.server import has_library


class Availability(NamedTuple):
    """Whether the library is installed, and the fetched models, the largest last."""

    has_library: bool
    models: tuple[str, ...]
    folder: str

    @property
    def default(self) -> str | None:
        """The spec of the default model: the largest one; None if no model can be used."""
        return f"local:{self.models[-1]}" if self.has_library and self.models else None

    @property
    def found(self) -> str:
        """A description of what was found."""
        if not self.has_library:
            return "the extra `local` is not installed"
        return ", ".join(self.models) if self.models else f"no model in {self.folder}"

    @property
    def help(self) -> str | None:
        """A description of what is missing to use a local model; None if nothing is."""
        if not self.has_library:
            return "pip install 'callsheet[local]' brings a model server for this machine"
        return None if self.models else "`callsheet models list` shows what can be fetched"


def detect() -> Availability:
    """What is available on this machine."""
    return Availability(has_library(), tuple(model.name for model in fetched()), str(models_folder()))
