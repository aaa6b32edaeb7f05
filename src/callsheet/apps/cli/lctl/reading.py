"""`callsheet lctl check|show|chain|graph|diff|ack|rules`: reads the documents of a chain."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import Decorator, grouped
from callsheet.apps.cli.output import (
    MAX_SHOWN,
    columns,
    count_by_severity,
    ignoring_broken_pipe,
    omitted_line,
    print_json,
    print_text,
    to_stderr,
)
from callsheet.apps.operations.lctl import LctlChecked, confidence_row, document_rows
from callsheet.diagnostics import CallsheetError, render
from callsheet.trace.lctl.check import Report
from callsheet.trace.lctl.check import check as check_chain
from callsheet.trace.lctl.confidence import VerifiedRaise
from callsheet.trace.lctl.diff import Changed, Diff
from callsheet.trace.lctl.diff import diff as differences
from callsheet.trace.lctl.findings import LctlError, worst_first
from callsheet.trace.lctl.graph import ChainGraph, failed_step, graph_of, root_cause
from callsheet.trace.lctl.model import Body, DebugDocument, shown_id, shown_ids
from callsheet.trace.lctl.reading import Reading, read
from callsheet.trace.lctl.receive import receive
from callsheet.trace.lctl.rules.table import RULES, Level
from callsheet.trace.lctl.write import to_data, write
from callsheet.trace.lctl.yaml_text import MOST_BYTES
from callsheet.views.lctl import changes_text, hops_text, mermaid_chain, terminal_chain, terminal_document

if TYPE_CHECKING:
    from callsheet.apps.operations.lctl import DocumentDifference


STDIN = "-"


class Documents:
    """The documents named on the command line, in the order of their chain."""

    def __init__(
        self, files: tuple[str, ...], follows: tuple[str, ...] = (), verified_raise: str = "cap"
    ) -> None:
        if files.count(STDIN) > 1:
            raise click.UsageError("only one document can come from standard input")
        self._files = files
        self._parents = dict(_parse_follows(text, len(files)) for text in follows)
        self._verified_raise = VerifiedRaise(verified_raise)

    def check(self) -> Report:
        """Read and check the documents. Raises CallsheetError (CFG012) for a file that cannot be read."""
        readings = [read_block(name) for name in self._files]
        return check_chain(readings, self._parents, verified_raise=self._verified_raise)

    def report(self) -> Report:
        """As `check`, but raises `LctlError` for a text that is not a document."""
        report = self.check()
        for place, reading in enumerate(report.readings):
            if reading.document is None:
                raise LctlError.of(report.of(place), reading.source)
        return report


def read_block(name: str) -> Reading:
    """The document of a file, or of standard input for `-`. Raises CallsheetError (CFG012)."""
    shown = "<stdin>" if name == STDIN else name
    try:
        if name != STDIN:
            with Path(name).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        elif sys.stdin is None:
            raise OSError("it is closed")
        else:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        help_text = "give a file, or - for standard input"
        raise CallsheetError.single("CFG012", f"{shown} cannot be read: {reason}", help=help_text) from error
    return read(data, shown)


def _parse_follows(text: str, count: int) -> tuple[int, tuple[int, ...]]:
    """The positions, from 0, of `--follows N=A,B`."""
    child, equals, above = text.partition("=")
    try:
        place, parents = int(child) - 1, tuple(int(part) - 1 for part in above.split(",") if part.strip())
    except ValueError:
        equals, place, parents = "", 0, ()
    if not equals or not 0 <= place < count or not all(0 <= parent < place for parent in parents):
        message = (
            f"--follows {text[:40]!r}: write N=A,B with numbers of documents, from 1, that come before N"
        )
        raise click.UsageError(message)
    return place, parents


documents: Decorator = grouped(
    "documents",
    Documents,
    files=click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    follows=click.option(
        "--follows",
        multiple=True,
        metavar="N=A,B",
        help="Document N (from 1) follows, and merges, A and B; default: the previous one. "
        "May be repeated; N= follows none.",
    ),
    verified_raise=click.option(
        "--verified-raise",
        type=click.Choice([str(word) for word in VerifiedRaise]),
        default=str(VerifiedRaise.CAP),
        show_default=True,
        help="How a raised confidence that is listed in facts_modified counts: capped or not.",
    ),
)
"""The documents of a chain, as `documents`."""


@click.command()
@documents
@click.option("--infos", is_flag=True, help="Also report findings of level info.")
@options.as_json
def check(documents: Documents, infos: bool, as_json: bool) -> int:
    """Check the documents FILE... of one chain, in order; - is standard input.

    A file may be the whole answer of a model, with the document in a code fence. An acknowledgement is
    compared with the document before it. The exit status is 1 if a rule of level error is broken.
    """
    report = documents.check()
    findings = worst_first([f for f in report.findings if infos or as_json or f.level is not Level.INFO])
    with ignoring_broken_pipe():
        if as_json:
            print_json(LctlChecked(report).to_json())
        else:
            for finding in findings[:MAX_SHOWN]:
                print_text(render(finding.diagnostic, report.readings[finding.document].source))
            if len(findings) > MAX_SHOWN:
                print_text(omitted_line([finding.diagnostic for finding in findings[MAX_SHOWN:]]))
            for place, reading in enumerate(report.readings):
                print_text(f"{reading.source.name}: {_verdict(report, place)}")
            _print_confidence(report)
    return Exit.OK if report.is_ok else Exit.FAILED


def _verdict(report: Report, place: int) -> str:
    findings = report.of(place)
    counts = count_by_severity(
        [finding.diagnostic for finding in findings if finding.level is not Level.INFO]
    )
    if any(finding.is_error for finding in findings):
        return counts
    return "ok" + (f", {counts}" if counts else "")


def _print_confidence(report: Report) -> None:
    for heading, facts in (
        ("flagged, below 0.70 or unknown", tuple(map(shown_id, report.flagged))),
        ("for review by a person", tuple(map(shown_id, report.human_review))),
        ("blocked", tuple(map(shown_id, report.blocked))),
        ("lost", tuple(f"{shown_id(lost.fact)} at hop {lost.hop}" for lost in report.lost)),
    ):
        if facts:
            more = f" and {len(facts) - MAX_SHOWN} more" if len(facts) > MAX_SHOWN else ""
            print_text(f"{heading}: {', '.join(facts[:MAX_SHOWN])}{more}")


@click.command()
@documents
@options.as_json
def show(documents: Documents, as_json: bool) -> None:
    """Show what the last of the documents FILE... hands on: chain, facts with confidence, instruction.

    For a post-mortem, show the failed step and, separately, the likely cause.
    """
    report = documents.report()
    with ignoring_broken_pipe():
        if as_json:
            last = report.last
            data = None if last is None else to_data(last.body)
            print_json({"document": data, **confidence_row(report), **_failure(report)})
        else:
            print_text(terminal_document(report, columns=columns()))


def _failure(report: Report) -> dict[str, Any]:
    document = report.last.body if report.last is not None else None
    if not isinstance(document, DebugDocument):
        return {}
    cause = root_cause(document)
    row = None if cause is None else {"step": cause.step, "by": str(cause.by), "because": cause.because}
    return {"failed_step": failed_step(document), "root_cause": row}


@click.command()
@documents
@options.as_json
def chain(documents: Documents, as_json: bool) -> None:
    """Show hop by hop what the documents FILE... carry: facts, lost facts, and the confidence of each."""
    report = documents.report()
    with ignoring_broken_pipe():
        if as_json:
            print_json({"ok": report.is_ok, "documents": document_rows(report), **confidence_row(report)})
        else:
            print_text(hops_text(report, columns=columns()))


@click.command()
@documents
@click.option(
    "--format",
    "shape",
    type=click.Choice(["terminal", "mermaid"]),
    default="terminal",
    show_default=True,
    help="The output format: text for a terminal, or a Mermaid flow chart.",
)
@options.as_json
def graph(documents: Documents, shape: str, as_json: bool) -> None:
    """Draw the chain of the documents FILE...: agents, and the facts passed between them."""
    report = documents.report()
    chain_graph = graph_of(report.hops.values())
    text = mermaid_chain(chain_graph) if shape == "mermaid" else terminal_chain(report, columns=columns())
    with ignoring_broken_pipe():
        if as_json:
            print_json({"format": shape, "graph": text, **_graph_json(chain_graph)})
        else:
            print_text(text)


def _graph_json(graph: ChainGraph) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "agent": node.agent,
                "step": None if node.entry is None else node.entry.step,
                "failed": node.has_failed,
                "root_cause": node.is_cause,
            }
            for node in graph.nodes
        ],
        "edges": [
            {
                "from": edge.start,
                "to": edge.end,
                "facts": {carried.fact: carried.confidence for carried in edge.facts},
            }
            for edge in graph.edges
        ],
    }


@click.command()
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option("--exit-code", is_flag=True, help="Exit 1 if the documents differ.")
@options.as_json
def diff(old: str, new: str, exit_code: bool, as_json: bool) -> int:
    """Show the differences of the documents A and B, for example of two runs of one chain.

    Steps are aligned, so that an inserted step does not change all later ones. Times are ignored. One of the
    two may be - for standard input.
    """
    if old == new == STDIN:
        raise click.UsageError("only one of the two documents can come from standard input")
    difference = differences(_body(old), _body(new))
    with ignoring_broken_pipe():
        if as_json:
            print_json(_as_json(difference))
        else:
            print_text(changes_text(difference))
    return Exit.FAILED if exit_code and not difference.is_equal else Exit.OK


def _body(name: str) -> Body:
    reading = read_block(name)
    if reading.document is None:
        raise LctlError.of(reading.findings, reading.source)
    if not isinstance(reading.document, Body):
        help_text = "an acknowledgement has no trace; compare hand-offs or post-mortems"
        raise CallsheetError.single("CFG012", f"{name} is an acknowledgement", help=help_text)
    return reading.document


def _as_json(difference: Diff) -> DocumentDifference:
    return {
        "equal": difference.is_equal,
        "first_divergence_step": difference.first_divergence_step,
        "steps_added": [{"step": entry.step, "agent": entry.agent} for entry in difference.steps_added],
        "steps_removed": [{"step": entry.step, "agent": entry.agent} for entry in difference.steps_removed],
        "steps_changed": [
            {"step": change.step, "agent": change.agent, "fields": _values(change.fields)}
            for change in difference.steps_changed
        ],
        "facts_added": list(difference.facts_added),
        "facts_removed": list(difference.facts_removed),
        "facts_changed": {fact: _values(fields) for fact, fields in difference.facts_changed.items()},
        "rest_changed": _values(difference.rest_changed),
    }


def _values(fields: Mapping[str, Changed]) -> dict[str, Any]:
    return {name: {"old": change.old, "new": change.new} for name, change in fields.items()}


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--after", multiple=True, metavar="FILE", help="An earlier document of the chain; may be repeated."
)
@click.option(
    "--agent", metavar="NAME", help="The agent that acknowledges; it must be the target of the hand-off."
)
@options.as_json
def ack(file: str, after: tuple[str, ...], agent: str | None, as_json: bool) -> int:
    """Write the acknowledgement of the hand-off FILE (- is standard input): loaded facts, and concerns.

    The exit status is 4 if a fact is so uncertain that a person has to decide, and 2 if the hand-off cannot
    be received.
    """
    if (file, *after).count(STDIN) > 1:
        raise click.UsageError("only one document can come from standard input")
    readings = [read_block(name) for name in (*after, file)]
    for reading in readings:
        if reading.document is None:
            raise LctlError.of(reading.findings, reading.source)
    *before, last = readings
    received = receive(last, agent=agent, after=before)
    acknowledgement = received.ack()
    if as_json:
        print_json(
            {
                "ack": to_data(acknowledgement),
                "human_review": list(received.human_review),
                "blocked": list(received.blocked),
            }
        )
    else:
        print_text(write(acknowledgement).rstrip("\n"))
    if received.blocked:
        to_stderr(f"a person has to decide about {shown_ids(received.blocked)}, which must not be handed on")
    return Exit.UNDECIDED if received.blocked else Exit.OK


@click.command()
@click.option("--level", type=click.Choice([str(level) for level in Level]), help="Only rules of this level.")
@options.as_json
def rules(level: str | None, as_json: bool) -> None:
    """List the rules that documents are checked against; `callsheet explain X07` explains a rule."""
    selected = [rule for rule in RULES.values() if level is None or rule.level == level]
    with ignoring_broken_pipe():
        if as_json:
            print_json([rule._asdict() for rule in selected])
        else:
            for rule in selected:
                click.echo(f"{rule.id}  {rule.level!s:<5}  {rule.title}")
