"""`callsheet lctl check`: checks the documents of a chain against the rules."""

from __future__ import annotations

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.lctl.documents import Documents, documents
from callsheet.apps.cli.output import (
    MAX_SHOWN,
    count_by_severity,
    ignoring_broken_pipe,
    omitted_line,
    print_json,
    print_text,
)
from callsheet.apps.operations.lctl import LctlChecked
from callsheet.diagnostics import render
from callsheet.trace.lctl.check import Report
from callsheet.trace.lctl.findings import worst_first
from callsheet.trace.lctl.ids import shown_id
from callsheet.trace.lctl.rules.table import Level


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
