"""`callsheet report` and `trace export`: recorded runs as an HTML file, and for tracing tools."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.group import CommandEntry, LazyCommands
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr, writing
from callsheet.apps.cli.runs import shown_status

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_service_rows import ExportedTrace
    from callsheet.runtime.telemetry.sending import Sent
    from callsheet.runtime.telemetry.target import Target
    from callsheet.views.otel.model import Telemetry
    from callsheet.views.report.build import Preview


_MAX_BYTES = 16_384


@click.command()
@click.argument("run", metavar="RUN")
@options.output("The file to write, `-` for standard output; default: RUN.html in the current folder.")
@click.option("--diff", "other", metavar="OTHER", help="Include a comparison with the run OTHER.")
@click.option(
    "--max-value", "most", type=click.IntRange(0), default=_MAX_BYTES, show_default=True, metavar="BYTES",
    help="The size above which values are shortened.",
)  # fmt: skip
@click.option("--redact", is_flag=True, help="Omit values; names, kinds and sizes are kept.")
@click.option(
    "--preview-redaction", "only_preview", is_flag=True,
    help="Print what would be shown, shortened, encrypted and omitted; write nothing.",
)  # fmt: skip
@journals.journal_path
@options.as_json
def report(
    run: str,
    output: Path | None,
    other: str | None,
    most: int,
    redact: bool,
    only_preview: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Write RUN as one self-contained HTML file.

    RUN is a run id, a unique prefix of one, or `last`. The report shows the plan as a graph, the calls over
    time, every event, the lineage and confidence of values, the findings of rules, and the cost of the run.

    The file contains the values of the run. Check it with --preview-redaction before you share it; --redact
    omits the values. The exit status is 1 if the hash chain of the events is broken, which the report shows
    as well.

    \b
    Examples:
      callsheet report last
      callsheet report last --redact -o public.html
    """
    from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - imports the store
    from callsheet.runtime.reporting import MADE_BY, report_document, report_page, save_page  # noqa: PLC0415 - imports the runtime
    from callsheet.views.report.build import (  # noqa: PLC0415 - as above
        Showing,
        preview_of,
    )

    if as_json and output is not None and str(output) == "-":
        raise click.UsageError("--json and the report cannot both be written to standard output: name a file")
    refresh_copies(journal, run)
    with journals.open_to_read(journal) as opened:
        document = report_document(opened, run, MADE_BY, Showing(most, redact), other)
    preview = preview_of(document)
    chain = document.run["chain"]
    if not chain["ok"]:
        to_stderr(f"run {document.run['id']}: CHAIN BROKEN at event {chain['seq']}: {chain['why']}")
    status = Exit.OK if chain["ok"] else Exit.FAILED
    if only_preview:
        _show_preview(preview, as_json=as_json)
        return status
    page = report_page(document)
    path = output or Path(f"{document.run['id']}.html")
    with ignoring_broken_pipe():
        if str(path) == "-":
            print_text(page, nl=False)
            return status
        with writing(path):
            save_page(path, page)
        if as_json:
            print_json(
                {
                    "run_id": document.run["id"],
                    "path": str(path),
                    "bytes": path.stat().st_size,
                    **preview.to_json(),
                }
            )
        else:
            print_text(f"{path}  {_size(path.stat().st_size)}, {preview.line()}")
    return status


def _show_preview(preview: Preview, *, as_json: bool) -> None:
    with ignoring_broken_pipe():
        if as_json:
            print_json(preview.to_json())
        else:
            for line in preview.lines():
                print_text(line)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


_RUNNING = "running"


@dataclass(frozen=True, slots=True)
class ExportOutcome:
    """The exported data of a run, and its destinations."""

    run_id: str
    trace_id: str
    telemetry: Telemetry
    is_running: bool
    url: str | None = None
    sent: Sent | None = None
    file: Path | None = None
    prov: Path | None = None
    relations: int = 0


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--otlp",
    "url",
    metavar="URL",
    help="Send the trace to the collector at this URL, such as http://localhost:4318.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=env:VARIABLE",
    help="Send this header, with the value of an environment variable, to the collector; may be repeated.",
)
@click.option("--content", is_flag=True, help="Include arguments, results and error texts.")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the trace as OTLP JSON, a line per signal.",
)
@click.option(
    "--prov",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the lineage of values as PROV-JSON.",
)
@journals.journal_path
@options.as_json
def export(
    run: str,
    url: str | None,
    headers: tuple[str, ...],
    content: bool,
    file: Path | None,
    prov: Path | None,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Export RUN to tracing tools.

    RUN is a run id, a unique prefix of one, or `last`. The trace is computed from the journal, with ids
    derived from the run, so sending it again adds nothing. Arguments, results and error texts are exported
    only with --content. Without --otlp, --file and --prov only a summary is printed.

    The exit status is 1 if the hash chain of the events is broken, in which case nothing is exported, or if
    the collector cannot be reached or rejects the trace.

    \b
    Example:
      callsheet trace export last --otlp http://localhost:4318
    """
    from callsheet.machine.keys import trace_id  # noqa: PLC0415 - not for --help
    from callsheet.runtime.telemetry.live import provenance_of, telemetry_of  # noqa: PLC0415 - as above
    from callsheet.runtime.telemetry.target import headers_of, target_of  # noqa: PLC0415 - as above

    if headers and url is None:
        raise click.UsageError("--header needs --otlp")
    target = None if url is None else target_of(url, headers_of(headers))
    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        if not journals.is_intact(opened, info.run_id):
            return Exit.FAILED
        goes_on = shown_status(opened, info) == _RUNNING
        telemetry = telemetry_of(opened, info.run_id, content=content, goes_on=goes_on)
        provenance = None if prov is None else provenance_of(opened, info.run_id, content=content)
    if file is not None:
        _write(file, _lines(telemetry, info.run_id))
    relations = 0 if prov is None or provenance is None else _write_provenance(prov, provenance)
    sent = None if target is None else _send(target, info.run_id, telemetry)
    outcome = ExportOutcome(
        info.run_id,
        trace_id(info.run_id),
        telemetry,
        goes_on,
        None if target is None else target.url,
        sent,
        file,
        prov,
        relations,
    )
    with ignoring_broken_pipe():
        if as_json:
            print_json(_json(outcome))
        else:
            _print(outcome)
    return Exit.OK


def _send(target: Target, run_id: str, telemetry: Telemetry) -> Sent:
    """Send the telemetry of a run to a collector, and return what the collector accepted."""
    from callsheet.runtime.telemetry.sending import Sender  # noqa: PLC0415 - only where it is sent

    with Sender(target, run_id) as sender:
        sender.send(telemetry)
        return sender.sent


def _write_provenance(path: Path, provenance: dict[str, Any]) -> int:
    """Write PROV-JSON, and return the number of its relations."""
    _write(path, json.dumps(provenance, indent=1, ensure_ascii=False) + "\n")
    return sum(len(rows) for kind, rows in provenance.items() if kind.startswith(("was", "used")))


def _lines(telemetry: Telemetry, run_id: str) -> str:
    from callsheet import __version__  # noqa: PLC0415 - not for --help
    from callsheet.views.otel.otlp import documents  # noqa: PLC0415 - as above

    signals = documents(telemetry, __version__, run_id)
    return "".join(json.dumps(signal, ensure_ascii=False, separators=(",", ":")) + "\n" for signal in signals)


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _describe_counts(telemetry: Telemetry) -> str:
    spans, logs, metrics = len(telemetry.spans), len(telemetry.logs), len(telemetry.metrics)
    counts = ("span", spans), ("log event", logs), ("histogram", metrics)
    return ", ".join(f"{count:,} {noun}{'' if count == 1 else 's'}" for noun, count in counts)


def _print(outcome: ExportOutcome) -> None:
    print_text(f"run    {outcome.run_id}")
    print_text(f"trace  {outcome.trace_id}: {_describe_counts(outcome.telemetry)}")
    for name, number in Counter(span.name for span in outcome.telemetry.spans).most_common(12):
        print_text(f"       {number:6,}  {name}")
    if outcome.sent is not None:
        print_text(f"sent   to {outcome.url}")
        for signal, why in outcome.sent.not_taken.items():
            print_text(f"       without {signal}: not accepted by the collector ({why})")
        for signal, found in outcome.sent.rejected.items():
            why = f" ({found.why!a})" if found.why else ""
            print_text(f"       {signal}: {found.items:,} rejected by the collector{why}")
    if outcome.file is not None:
        print_text(f"wrote  {outcome.file}")
    if outcome.prov is not None:
        print_text(f"wrote  {outcome.prov}: PROV-JSON with {outcome.relations:,} relations")
    if outcome.is_running:
        print_text("the run is still running: pending calls are not exported yet")


def _json(outcome: ExportOutcome) -> ExportedTrace:
    sent = outcome.sent
    return {
        "run_id": outcome.run_id,
        "trace_id": outcome.trace_id,
        "is_running": outcome.is_running,
        "spans": len(outcome.telemetry.spans),
        "logs": len(outcome.telemetry.logs),
        "metrics": len(outcome.telemetry.metrics),
        "sent": None
        if sent is None
        else {
            "url": outcome.url,
            "spans": sent.spans,
            "logs": sent.logs,
            "metrics": sent.metrics,
            "not_taken": {str(signal): why for signal, why in sent.not_taken.items()},
            "rejected": {str(signal): found._asdict() for signal, found in sent.rejected.items()},
        },
        "file": None if outcome.file is None else str(outcome.file),
        "prov": None if outcome.prov is None else {"file": str(outcome.prov), "relations": outcome.relations},
    }


_PACKAGE = "callsheet.apps.cli.export"

COMMANDS: dict[str, CommandEntry] = {
    "export": CommandEntry(f"{_PACKAGE}:export", "Export a run to tracing tools.", "Export"),
}


@click.group("trace", cls=LazyCommands, entries=COMMANDS, epilog=None)
def trace() -> None:
    """Export runs to tracing tools, as OpenTelemetry or PROV."""
