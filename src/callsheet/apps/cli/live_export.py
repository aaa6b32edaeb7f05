"""Sends the trace of a run to a collector while the run executes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli.output import to_stderr
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.setup import Setup
    from callsheet.runtime.telemetry.target import OtelSettings, Target

otlp = click.option(
    "--otlp",
    default="",
    metavar="URL",
    help="Send the trace of the run to this OpenTelemetry collector; default: [otel] in config.toml.",
)


def with_collector(setup: Setup, url: str) -> Setup:
    """The setup with the collector of `--otlp`. Raises CallsheetError (TRC003) for an invalid URL."""
    if not url:
        return setup
    from callsheet.runtime.telemetry.target import checked_url  # noqa: PLC0415 - only where it is named

    otel = replace(setup.settings.otel, url=checked_url(url))
    return replace(setup, settings=replace(setup.settings, otel=otel))


@contextmanager
def export_while_running(
    otel: OtelSettings, target: Target | None, journal: Path | None, run_id: str, hint: str, *, quiet: bool
) -> Generator[None]:
    """Send the trace of a run while it executes, and print the result at the end; nothing without a target.

    If it could not be sent, the command that sends it later is printed, even with `quiet`.
    """
    if target is None or journal is None:
        yield
        return
    from callsheet.runtime.telemetry.live import LiveExport  # noqa: PLC0415 - only where it is sent

    export = LiveExport(journal, run_id, target, content=otel.content)
    export.start()
    try:
        yield
    finally:
        done = export.finish()
        if done.failure is not None:
            headers = "".join(f" --header {name}={value}" for name, value in otel.headers.items())
            content = " --content" if otel.content else ""
            command = f"callsheet trace export {run_id} --otlp {done.url}{headers}{content}{hint}"
            to_stderr(
                f"trace not sent: {done.failure}\n  help: the run is recorded; send its trace with: {command}"
            )
        elif done.rejected:
            to_stderr(f"trace sent to {done.url}, {done.spans:,} spans; it rejected {done.rejected:,} more")
        elif done.spans and not quiet:
            to_stderr(f"trace sent to {done.url}, {done.spans:,} spans")


def target_or_warning(otel: OtelSettings) -> Target | None:
    """The collector that a run was started with; None, with a warning, if it cannot be used."""
    try:
        return otel.target()
    except CallsheetError as error:
        to_stderr(f"the trace is not sent: {error.diagnostics[0].message}")
        return None
