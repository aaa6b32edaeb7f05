"""The options that select an execution engine and its address."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.diagnostics import CallsheetError
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.apps.settings import Settings
    from callsheet.runtime.engines.temporal.settings import TemporalSettings

TEMPORAL = "temporal"


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """The address of an engine on the command line; empty fields are taken from the configuration."""

    address: str
    namespace: str
    queue: str
    blobs: str

    @property
    def is_given(self) -> bool:
        """Whether any field is set."""
        return bool(self.address or self.namespace or self.queue or self.blobs)

    def apply_to(self, settings: TemporalSettings) -> TemporalSettings:
        """The settings, with the fields that are set replaced."""
        overrides = {
            "address": self.address,
            "namespace": self.namespace,
            "queue": self.queue,
            "blobs": self.blobs,
        }
        return replace(settings, **{name: value for name, value in overrides.items() if value})


places: dict[str, options.Decorator] = {
    "address": click.option(
        "--address", default="", metavar="HOST:PORT", help="The address of the Temporal server."
    ),
    "namespace": click.option(
        "--namespace", default="", metavar="NAME", help="The namespace of the Temporal server."
    ),
    "blobs": click.option(
        "--blobs",
        default="",
        metavar="PLACE",
        help="The storage of values of more than 64 KiB, shared by workers and clients: a folder, "
        "s3://BUCKET/PREFIX or postgresql://…; default: $CALLSHEET_STORE, otherwise beside the journal.",
    ),
}
"""The options for the address of a server and the storage of large values."""
_PLACES: dict[str, options.Decorator] = {
    "queue": click.option("--queue", default="", metavar="NAME", help="The task queue of the workers."),
    **places,
}
whereabouts = options.grouped("whereabouts", EngineAddress, **_PLACES)
"""The address of Temporal, as `whereabouts`."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine that executes a run; with `detaches` the command does not wait for the end."""

    name: str
    whereabouts: EngineAddress
    detaches: bool

    def settings(self, configured: Settings) -> TemporalSettings | None:
        """The settings of Temporal, None for a local run. Raises CallsheetError (TMP001) and UsageError."""
        if self.name != TEMPORAL:
            if self.whereabouts.is_given or self.detaches:
                raise click.UsageError(
                    "--address, --namespace, --queue, --blobs and --detach need --engine temporal;"
                    " an input of the plan with such a name is given with --var, as --var queue=…"
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
        help="What executes the run: this process, or the workers of a Temporal server.",
    ),
    detaches=click.option(
        "--detach",
        "detaches",
        is_flag=True,
        help="With --engine temporal: start the run and do not wait for its end.",
    ),
    **_PLACES,
)
"""The engine that executes a run, as `engine`."""


def require_extra() -> None:
    """Raise CallsheetError (TMP001) if the package of Temporal is not installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - not for --help

    if find_spec("temporalio") is None:
        raise CallsheetError.single(
            "TMP001",
            "the Temporal engine needs temporalio, which is not installed",
            help="pip install 'callsheet[temporal]'",
        )
