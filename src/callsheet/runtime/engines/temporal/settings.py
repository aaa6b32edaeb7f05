"""Where runs on Temporal are carried out, as a user says it. Nothing of Temporal's own is loaded here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

NAME = "temporal"
"""The name of this engine."""
_LEAST_HEARTBEAT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSettings:
    """The table `[temporal]` of the configuration.

    What is empty of `address`, `namespace` and `profile` is as Temporal's own configuration says
    (`TEMPORAL_ADDRESS` and the like, `temporal.toml`), where keys and certificates stand as well. `queue` is
    the task queue of plans; those of tools and models begin with it. `blobs` is the place of large values,
    which all workers and clients reach: a folder, `s3://BUCKET/PREFIX`, `postgresql://…`; by default the
    shared store, else a folder beside the journal. A worker that has not been heard of for `heartbeat`
    seconds is taken for dead. With `encrypt` all that the server and the place of blobs are given is
    encrypted with the user's key, which all workers and clients need. Raises ValueError for what cannot be.
    """

    address: str = ""
    namespace: str = ""
    profile: str = ""
    queue: str = "callsheet"
    blobs: str = ""
    heartbeat: float = 30.0
    encrypt: bool = False

    def __post_init__(self) -> None:
        if not self.queue:
            raise ValueError("queue must not be empty")
        if self.heartbeat < _LEAST_HEARTBEAT:
            raise ValueError("heartbeat must be at least 1 second")

    @property
    def place(self) -> str:
        """Where large values lie. Raises CallsheetError (CFG230) for a wrong address of the shared store."""
        if "://" in self.blobs:
            return self.blobs
        if self.blobs:
            return str(Path(self.blobs).expanduser().absolute())
        from callsheet.store.place import default_journal_path  # noqa: PLC0415 - only where none is named
        from callsheet.store.shared.address import shared_address  # noqa: PLC0415 - brings the store

        return shared_address() or str(default_journal_path().absolute().parent / "temporal-blobs")

    def to_note(self) -> dict[str, Any]:
        """The settings as JSON data, for the journal of a run.

        A password is left out, and the address of the shared store, which is the environment's.
        """
        from callsheet.store.shared.address import (  # noqa: PLC0415 - as above
            shared_address,
            without_password,
        )

        of_environment = not self.blobs and shared_address() is not None
        place = "" if of_environment else without_password(self.place)
        return {"name": NAME, **asdict(self), "blobs": place}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Self:
        """The settings that a journal tells of; what another version has noted besides is passed over."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in note.items() if name in known})
