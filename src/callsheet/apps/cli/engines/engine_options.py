"""The options that select an engine and say where it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.settings import Settings
    from callsheet.runtime.engines.temporal.settings import TemporalSettings

TEMPORAL = "temporal"


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine is, as the command line says it; what is empty is as the configuration says."""

    address: str
    namespace: str
    queue: str
    blobs: str

    @property
    def is_given(self) -> bool:
        """Whether any of it was said."""
        return bool(self.address or self.namespace or self.queue or self.blobs)

    def apply_to(self, settings: TemporalSettings) -> TemporalSettings:
        """The settings with what was said in their place."""
        overrides = {
            "address": self.address,
            "namespace": self.namespace,
            "queue": self.queue,
            "blobs": self.blobs,
        }
        return replace(settings, **{name: value for name, value in overrides.items() if value})


places: dict[str, options.Decorator] = {
    "address": click.option("--address", default="", metavar="HOST:PORT", help="The Temporal server."),
    "namespace": click.option("--namespace", default="", metavar="NAME", help="Its namespace."),
    "blobs": click.option(
        "--blobs",
        default="",
        metavar="PLACE",
        help="Where values of more than 64 KiB lie, for all workers and clients: a folder, "
        "s3://BUCKET/PREFIX or postgresql://…; default: $CALLSHEET_STORE, else a folder beside the journal.",
    ),
}
"""The options that say where a server is, and large values."""
_PLACES: dict[str, options.Decorator] = {
    "queue": click.option("--queue", default="", metavar="NAME", help="The task queue of the workers."),
    **places,
}
whereabouts = options.grouped("whereabouts", EngineAddress, **_PLACES)
"""Where Temporal is, as `whereabouts`."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Which engine a run is given to; `detaches` says that nobody waits for it."""

    name: str
    whereabouts: EngineAddress
    detaches: bool

    def settings(self, configured: Settings) -> TemporalSettings | None:
        """Where Temporal is, None for a run on this machine; raises CallsheetError (TMP001), UsageError."""
        if self.name != TEMPORAL:
            if self.whereabouts.is_given or self.detaches:
                raise click.UsageError(
                    "--address, --namespace, --queue, --blobs and --detach belong to --engine temporal"
                )
            return None
        require_extra()
        return self.whereabouts.apply_to(configured.temporal)


def _make_engine(kind: str, detaches: bool, **places: object) -> Engine:
    return Engine(kind, EngineAddress(**places), detaches)  # pyright: ignore[reportArgumentType]


engine = options.grouped(
    "engine",
    _make_engine,
    kind=click.option(
        "--engine",
        "kind",
        type=click.Choice(["local", TEMPORAL]),
        default="local",
        show_default=True,
        help="Who carries the run: this process, or the workers of a Temporal server.",
    ),
    detaches=click.option(
        "--detach", "detaches", is_flag=True, help="With --engine temporal: start the run and do not wait."
    ),
    **_PLACES,
)
"""Which engine a run is given to, as `engine`."""


def require_extra() -> None:
    """Raise CallsheetError (TMP001) where Temporal's package is not there."""
    from importlib.util import find_spec  # noqa: PLC0415 - not for --help

    if find_spec("temporalio") is None:
        raise CallsheetError.single(
            "TMP001",
            "the Temporal engine needs temporalio, which is not installed",
            help="pip install 'callsheet[temporal]'",
        )
