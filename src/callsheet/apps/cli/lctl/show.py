"""`callsheet lctl show`, `chain` and `graph`: print documents for people."""

from __future__ import annotations

from typing import Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.lctl.documents import Documents, documents
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.cli.terminal import columns
from callsheet.apps.operations.lctl import confidence_row, document_rows
from callsheet.trace.lctl.check import Report
from callsheet.trace.lctl.graph import ChainGraph, failed_step, graph_of, root_cause
from callsheet.trace.lctl.model import DebugDocument
from callsheet.trace.lctl.write import to_data
from callsheet.views.lctl import hops_text, mermaid_chain, terminal_chain, terminal_document


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
