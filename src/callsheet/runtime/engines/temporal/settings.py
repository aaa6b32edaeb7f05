"""The user's settings for Temporal; importing this loads nothing of Temporal's SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Self

from callsheet.diagnostics.wrong_type import check_fields
from callsheet.lazy import dataclass

NAME = "temporal"
"""The name of this engine."""
_LEAST_HEARTBEAT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSettings:
    """The table `[temporal]` of the configuration.

    - `address`, `namespace`, `profile`: if empty, as in Temporal's own configuration (`TEMPORAL_ADDRESS`
      etc., `temporal.toml`), which also has keys and certificates.
    - `queue`: the task queue of plans, and the prefix of those for tools and models.
    - `blobs`: the store of large values, shared by all workers and clients: a folder, `s3://BUCKET/PREFIX` or
      `postgresql://…`; by default the shared store, else a folder beside the journal.
    - `heartbeat`: seconds without a heartbeat after which a worker counts as lost.
    - `encrypt`: whether everything given to the server and the blob store is encrypted with the user's key,
      which all workers and clients need.

    Raises ValueError for invalid settings.
    """

    address: str = ""
    namespace: str = ""
    profile: str = ""
    queue: str = "callsheet"
    blobs: str = ""
    heartbeat: float = 30.0
    encrypt: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.queue:
            raise ValueError("queue must not be empty")
        if self.heartbeat < _LEAST_HEARTBEAT:
            raise ValueError("heartbeat must be at least 1 second")

    @property
    def place(self) -> str:
        """The blob store. Raises CallsheetError (CFG230) for an invalid address of the shared store."""
        if "://" in self.blobs:
            return self.blobs
        if self.blobs:
            return str(Path(self.blobs).expanduser().absolute())
        from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - only if none is named
        from callsheet.store.shared.opening import shared_address  # noqa: PLC0415 - loads the store

        return shared_address() or str(default_journal_path().absolute().parent / "temporal-blobs")

    def to_note(self) -> dict[str, Any]:
        """The settings as JSON data for the journal of a run.

        Passwords are left out, and so is the address of the shared store, which comes from the environment.
        """
        from callsheet.store.shared.opening import (  # noqa: PLC0415 - as above
            shared_address,
            without_password,
        )

        of_environment = not self.blobs and shared_address() is not None
        place = "" if of_environment else without_password(self.place)
        return {"name": NAME, **asdict(self), "blobs": place}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Self:
        """Read the settings from a journal; unknown keys of other versions are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in note.items() if name in known})
