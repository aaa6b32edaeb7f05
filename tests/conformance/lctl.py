"""The area `lctl`: checks the documents of one case against all that it expects.

In: a case. Out: its differences, one text each; none means that it passes. `rules` is the complete set of
errors and warnings, `infos` a subset of the further findings.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.conformance.findings import difference, shown
from tests.conformance.lctl_form import LctlCase

from callsheet.diagnostics import render_all
from callsheet.trace.lctl.check import Report, check
from callsheet.trace.lctl.diff import Changed, Diff, diff
from callsheet.trace.lctl.graph import Evidence, graph_of, root_cause
from callsheet.trace.lctl.model import Body, DebugDocument
from callsheet.trace.lctl.reading import read
from callsheet.trace.lctl.rules.table import Level
from callsheet.trace.lctl.write import to_data, write
from callsheet.views.columns import width
from callsheet.views.lctl import mermaid_chain, terminal_chain, terminal_document

_COLUMNS = 100
_CALLED = {
    Evidence.CONFIDENCE: ("confidence", "low_confidence", "lowest_confidence", "lowest_fact", "fact"),
    Evidence.FAILED_AT_STEP: ("failed_at_step", "failed_step"),
}
"""What cases may call the evidence of a cause."""


def differences(case: LctlCase) -> list[str]:
    """The unmet expectations of a case; an empty list if it is met."""
    if case.mode not in ("", "diff"):
        return [f"mode {case.mode!r} is unknown"]
    began = time.thread_time()
    try:
        parents = case.topology
        if case.mode == "diff":
            parents = dict.fromkeys(range(len(case.docs)), ())
        report = check(case.docs, parents)
        used = time.thread_time() - began
        for place, reading in enumerate(report.readings):
            render_all([finding.diagnostic for finding in report.of(place)], reading.source)
        out: list[str] = []
        for key, wanted in case.expect.items():
            if key == "max_cpu_seconds":
                out += [difference(key, wanted, used)] if used > wanted else []
            elif key == "diff":
                out += _diff_differences(wanted, report)
            elif key == "render":
                out += _render_differences(wanted, report)
            elif key in LOOKS:
                found = LOOKS[key](report, wanted)
                out += [difference(key, wanted, found)] if not _same(found, wanted) else []
            else:
                out.append(f"the expectation {key!r} is unknown")
        return out
    except Exception as error:
        return [f"{type(error).__name__} was raised: {shown(str(error))}"]


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, int | float):
        return abs(found - wanted) < 1e-9
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return found.keys() == wanted.keys() and all(_same(found[key], wanted[key]) for key in wanted)
    return bool(found == wanted)


# ---------------------------------------------------------------- what is expected


def _rows(report: Report, levels: Iterable[Level]) -> list[dict[str, Any]]:
    rows = {(f.document, f.rule, str(f.level)) for f in report.findings if f.level in levels}
    return [{"doc": doc, "id": rule, "severity": level} for doc, rule, level in sorted(rows)]


def _sorted_rows(wanted: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = {(row["doc"], row["id"], row["severity"]) for row in wanted}
    return [{"doc": doc, "id": rule, "severity": level} for doc, rule, level in sorted(rows)]


def _rules(report: Report, wanted: Any) -> Any:
    found = _rows(report, (Level.ERROR, Level.WARN))
    return wanted if found == _sorted_rows(wanted) else found


def _infos(report: Report, wanted: Any) -> Any:
    found = _rows(report, (Level.INFO,))
    return wanted if all(row in found for row in _sorted_rows(wanted)) else found


def _named(report: Report, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The effective values of the requested facts, or all of them if one is missing."""
    values = dict(report.effective)
    return {fact: values[fact] for fact in wanted} if wanted and wanted.keys() <= values.keys() else values


def _value(report: Report, wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {path: _at(report, path) for path in wanted}


def _at(report: Report, path: str) -> Any:
    """A part of the first readable document as written, with long key names."""
    document = next(d for d in report.documents if d is not None)
    data: Any = to_data(document)
    if isinstance(document, Body):
        data["chain"] = data.get("chain", {}) | {
            "source": document.chain.source,
            "target": document.chain.target,
        }
    for part in re.split(r"[.\[\]]+", path.strip("[]")):
        if isinstance(data, list):
            data = data[int(part)]
        else:
            data = data.get(part) if isinstance(data, Mapping) else None
    return data


def _survives(report: Report, wanted: Any) -> bool:
    """Whether each document round-trips with the same data."""
    for document in report.documents:
        if document is None:
            return False
        again = read(write(document)).document
        if again != document or to_data(again) != to_data(document):
            return False
    return True


def _debug(report: Report) -> DebugDocument | None:
    last = report.last.body if report.last is not None else None
    return last if isinstance(last, DebugDocument) else None


def _cause(report: Report, attribute: str) -> Any:
    document = _debug(report)
    cause = root_cause(document) if document is not None else None
    return None if cause is None else getattr(cause, attribute)


def _called(by: Any, wanted: Any) -> Any:
    return wanted if wanted in _CALLED.get(by, ()) else by


def _source(report: Report, wanted: Any) -> Any:
    last = report.last
    return None if last is None else last.body.chain.source


def _failed_step(report: Report, wanted: Any) -> Any:
    document = _debug(report)
    return None if document is None else document.chain.failed_at_step


LOOKS: Mapping[str, Callable[[Report, Any], Any]] = {
    "ok": lambda report, wanted: report.is_ok,
    "rules": _rules,
    "infos": _infos,
    "kinds": lambda report, wanted: [None if d is None else str(d.kind) for d in report.documents],
    "source": _source,
    "value": _value,
    "effective": _named,
    "flagged": lambda report, wanted: _in_order(report.flagged, wanted),
    "human_review": lambda report, wanted: _in_order(report.human_review, wanted),
    "blocked": lambda report, wanted: _in_order(report.blocked, wanted),
    "lost": lambda report, wanted: [{"fact": lost.fact, "hop": lost.hop} for lost in report.lost],
    "failed_step": _failed_step,
    "root_cause_step": lambda report, wanted: _cause(report, "step"),
    "root_cause_by": lambda report, wanted: _called(_cause(report, "by"), wanted),
    "roundtrip": _survives,
}
"""What each expectation looks at; a value that equals the wanted one is a pass."""


def _in_order(found: Iterable[str], wanted: Iterable[str]) -> Any:
    return wanted if sorted(found) == sorted(wanted) else list(found)


# ---------------------------------------------------------------- differences


def _diff_differences(wanted: Mapping[str, Any], report: Report) -> list[str]:
    old, new = (document for document in report.documents if isinstance(document, Body))
    found = diff(old, new)
    seen: dict[str, Any] = {
        "equal": found.is_equal,
        "steps_added": [entry.agent for entry in found.steps_added],
        "steps_removed": [entry.agent for entry in found.steps_removed],
        "facts_added": list(found.facts_added),
        "facts_removed": list(found.facts_removed),
        "facts_changed": _changes(found, wanted.get("facts_changed")),
        "first_divergence_step": found.first_divergence_step,
    }
    return [
        difference(f"diff.{key}", value, seen.get(key))
        for key, value in wanted.items()
        if seen.get(key, ...) != value
    ]


def _changes(found: Diff, wanted: Any) -> Any:
    """The changed facts in the form of the case: ids, names of fields, or old and new values."""
    if isinstance(wanted, list):
        return list(found.facts_changed)
    shapes = wanted if isinstance(wanted, Mapping) else {}
    return {fact: _in_form(fields, shapes.get(fact)) for fact, fields in found.facts_changed.items()}


def _in_form(fields: Mapping[str, Changed], shape: Any) -> Any:
    if isinstance(shape, list):
        return [name for name in shape if name in fields] + [name for name in fields if name not in shape]
    pairs = {name: [change.old, change.new] for name, change in fields.items()}
    if isinstance(shape, Mapping):
        return {name: _paired(pair, shape.get(name)) for name, pair in pairs.items()}
    return pairs


def _paired(pair: list[Any], shape: Any) -> Any:
    if isinstance(shape, Mapping) and len(shape) == 2:
        return dict(zip(shape, pair, strict=True))
    return pair


# ---------------------------------------------------------------- pictures


def _render_differences(wanted: Mapping[str, Any], report: Report) -> list[str]:
    terminal = terminal_document(report, columns=_COLUMNS)
    chain = terminal_chain(report, columns=_COLUMNS)
    mermaid = mermaid_chain(graph_of(report.hops.values()))
    graph = graph_of(report.hops.values())
    out: list[str] = []
    for key, value in wanted.items():
        seen = {"text": f"{terminal}\n{mermaid}", "terminal": f"{terminal}\n{chain}", "mermaid": mermaid}
        where, _, what = key.partition("_")
        if key == "nodes":
            found: Any = list(dict.fromkeys(node.agent for node in graph.nodes))
            out += [difference(key, value, found)] if sorted(found) != sorted(value) else []
        elif key == "edges":
            found = {(graph.nodes[e.start].agent, graph.nodes[e.end].agent) for e in graph.edges}
            out += [difference(key, value, found)] if found != {tuple(pair) for pair in value} else []
        elif what == "contains" and where in seen:
            out += [difference(key, part, seen[where]) for part in value if part not in seen[where]]
        elif what in ("must_not_contain", "not_contains") and where in seen:
            out += [difference(key, part, seen[where]) for part in value if part in seen[where]]
        elif key == "mermaid_node_count":
            found = len(re.findall(r"^    \w+[\[(]", mermaid, re.MULTILINE))
            out += [difference(key, value, found)] if found != value else []
        elif key == "mermaid_edge_count":
            found = len(re.findall(r"^    \w+ -->", mermaid, re.MULTILINE))
            out += [difference(key, value, found)] if found != value else []
        elif key == "max_terminal_width":
            found = max(map(width, f"{terminal}\n{chain}".split("\n")))
            out += [difference(key, value, found)] if found > value else []
        else:
            out.append(f"the expectation render.{key} is unknown")
    return out
