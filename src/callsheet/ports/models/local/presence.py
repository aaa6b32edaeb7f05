"""Whether local models can be used here, and which: what `callsheet doctor` and choices of a default ask.

Nothing is started and no model file is read.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet.ports.models.local.places import fetched, models_folder
from callsheet.ports.models.local.server import has_library


class Presence(NamedTuple):
    """What is there: the library, and the names of the models that were fetched, the largest last."""

    has_library: bool
    models: tuple[str, ...]
    folder: str

    @property
    def default(self) -> str | None:
        """The spec of the model to use where nobody chose one: the largest; None if none can be used."""
        return f"local:{self.models[-1]}" if self.has_library and self.models else None

    @property
    def found(self) -> str:
        """What was found, in words."""
        if not self.has_library:
            return "the extra `local` is not installed"
        return ", ".join(self.models) if self.models else f"no model in {self.folder}"

    @property
    def help(self) -> str | None:
        """What is missing to use one, in words; None where nothing is."""
        if not self.has_library:
            return "pip install 'callsheet[local]' brings a model server for this machine"
        return None if self.models else "`callsheet models list` shows what can be fetched"


def look() -> Presence:
    """What is on this machine."""
    return Presence(has_library(), tuple(model.name for model in fetched()), str(models_folder()))
