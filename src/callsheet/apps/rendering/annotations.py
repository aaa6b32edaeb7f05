"""Findings in the formats of CI services: GitHub's commands, GitLab's Code Quality, SARIF 2.1.0 and JUnit.

In: findings, each with its place in a file; the results of tests. Out: text. These formats are those of the
services, and do not change with callsheet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from callsheet.diagnostics import Diagnostic, Severity, Source
from callsheet.diagnostics.codes import CODES
from callsheet.files import seen_from_here
from callsheet.lazy import dataclass
from callsheet.version import VERSION

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding for people who look at a file: lines and columns count from 1, 0 is not known.

    `end_column` is that of the first character behind it. `path` is "" for a text that is no file.
    """

    code: str
    severity: Severity
    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One thing that was checked or tested, with what is wrong: for JUnit, which counts those."""

    name: str
    group: str
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0


def findings_of(diagnostics: Iterable[Diagnostic], source: Source) -> tuple[Finding, ...]:
    """Diagnostics of a text as findings."""
    path = "" if source.name.startswith("<") or source.name == "-" else source.name
    found: list[Finding] = []
    for one in diagnostics:
        line = column = end_line = end_column = 0
        if one.span is not None:
            line, column = source.position(one.span.start)
            end_line, end_column = source.position(max(one.span.end, one.span.start + 1))
        found.append(
            Finding(
                code=one.code,
                severity=one.severity,
                message=one.message,
                path=path,
                line=line,
                column=column,
                end_line=end_line,
                end_column=end_column,
                help=one.help or "",
            )
        )
    return tuple(found)


def texts_checked(
    group: str, texts: Iterable[tuple[Iterable[Diagnostic], Source, float]]
) -> tuple[Checked, ...]:
    """Texts with their diagnostics and the seconds that each took, as what a command has checked."""
    return tuple(
        Checked(name=source.name, group=group, findings=findings_of(diagnostics, source), seconds=seconds)
        for diagnostics, source, seconds in texts
    )


def rendered(shape: Format, checked: Sequence[Checked]) -> str:
    """What was checked, in the format of a service; raises ValueError for `text` and `json`.

    Those are a command's own.
    """
    findings = [finding for one in checked for finding in one.findings]
    match shape:
        case Format.SARIF:
            return json.dumps(sarif(findings), ensure_ascii=False, indent=2)
        case Format.GITHUB:
            return "\n".join(map(github_line, findings))
        case Format.GITLAB:
            return json.dumps(gitlab(findings), ensure_ascii=False, indent=2)
        case Format.JUNIT:
            return junit(checked)
        case Format.TEXT | Format.JSON:
            raise ValueError(f"{shape} is a command's own format")


# ------------------------------------------------------------------ GitHub

_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.HINT: "notice"}


def github_line(finding: Finding) -> str:
    """A finding as a workflow command of GitHub, which makes an annotation of it.

    >>> github_line(Finding(code="CHK001", severity=Severity.ERROR, message="a\\nb", path="p,q.ltp", line=3))
    '::error file=p%2Cq.ltp,line=3,title=CHK001::a%0Ab'
    """
    place = [f"file={_property(finding.path)}"] if finding.path else []
    if finding.line:
        place.append(f"line={finding.line}")
        if finding.end_line == finding.line:
            place.append(f"col={finding.column},endColumn={finding.end_column}")
        elif finding.end_line:
            place.append(f"endLine={finding.end_line}")
    place.append(f"title={_property(finding.code)}")
    text = finding.message + (f"\nhelp: {finding.help}" if finding.help else "")
    return f"::{_GITHUB[finding.severity]} {','.join(place)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# ------------------------------------------------------------------ GitLab

_GITLAB = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.HINT: "info"}


def gitlab(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as a Code Quality report of GitLab.

    A fingerprint does not depend on the line, so that a finding is the same one after an edit above it.
    """
    seen: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    for finding in findings:
        key = f"{finding.path}\0{finding.code}\0{finding.message}"
        nth = seen[key] = seen.get(key, 0) + 1
        rows.append(
            {
                "description": f"{finding.message} ({finding.code})",
                "check_name": finding.code,
                "fingerprint": sha256(f"{key}\0{nth}".encode("utf-8", "surrogatepass")).hexdigest(),
                "severity": _GITLAB[finding.severity],
                "location": {"path": finding.path or "-", "lines": {"begin": max(finding.line, 1)}},
            }
        )
    return rows


# ------------------------------------------------------------------ SARIF

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.HINT: "note"}


def sarif(findings: Iterable[Finding]) -> dict[str, Any]:
    """Findings as a SARIF 2.1.0 log, with a rule for each code that occurs."""
    found = tuple(findings)
    codes = sorted({finding.code for finding in found})
    place = {code: number for number, code in enumerate(codes)}
    driver = {
        "name": "callsheet",
        "version": VERSION,
        "rules": [
            {"id": code, "shortDescription": {"text": CODES[code].title if code in CODES else code}}
            for code in codes
        ],
    }
    results: list[dict[str, Any]] = []
    for finding in found:
        text = finding.message + (f"\nhelp: {finding.help}" if finding.help else "")
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": place[finding.code],
            "level": _SARIF[finding.severity],
            "message": {"text": text},
        }
        if finding.path:
            physical: dict[str, Any] = {"artifactLocation": {"uri": uri_of(finding.path)}}
            if finding.line:
                region = {"startLine": finding.line}
                if finding.column:
                    region |= {"startColumn": finding.column}
                if finding.end_line:
                    region |= {"endLine": finding.end_line, "endColumn": finding.end_column}
                physical["region"] = region
            result["locations"] = [{"physicalLocation": physical}]
        results.append(result)
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def uri_of(path: str) -> str:
    """The URI of a path: relative to the working folder if it is below it, as code scanning wants it.

    >>> uri_of("plans/a b.ltp")
    'plans/a%20b.ltp'
    """
    given = seen_from_here(Path(path))
    if given.is_absolute():
        return given.as_uri()
    return quote(PurePath(given).as_posix())


# ------------------------------------------------------------------ JUnit


def junit(checked: Sequence[Checked]) -> str:
    """What was checked as a JUnit report: a suite for each group; a warning is output, not a failure."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring  # noqa: PLC0415 - only for this

    groups: dict[str, list[Checked]] = {}
    for one in checked:
        groups.setdefault(one.group, []).append(one)
    root = Element("testsuites", _counts("callsheet", checked))
    for name, members in groups.items():
        suite = SubElement(root, "testsuite", _counts(name, members))
        for one in members:
            _test_case(suite, one)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _counts(name: str, members: Sequence[Checked]) -> dict[str, str]:
    failed = sum(any(f.severity is Severity.ERROR for f in one.findings) for one in members)
    seconds = sum(one.seconds for one in members)
    return {
        "name": _xml(name),
        "tests": str(len(members)),
        "failures": str(failed),
        "errors": "0",
        "skipped": "0",
        "time": f"{seconds:.3f}",
    }


def _test_case(suite: Element, one: Checked) -> None:
    from xml.etree.ElementTree import SubElement  # noqa: PLC0415 - as above

    fields = {"name": _xml(one.name), "classname": _xml(one.group), "time": f"{one.seconds:.3f}"}
    place = next((f for f in one.findings if f.path), None)
    if place is not None:
        fields |= {"file": _xml(place.path)} | ({"line": str(place.line)} if place.line else {})
    case = SubElement(suite, "testcase", fields)
    errors = [f for f in one.findings if f.severity is Severity.ERROR]
    others = [f for f in one.findings if f.severity is not Severity.ERROR]
    if errors:
        failure = SubElement(
            case, "failure", {"message": _xml(errors[0].message.splitlines()[0]), "type": errors[0].code}
        )
        failure.text = _xml("\n".join(map(_line, errors)))
    if others:
        SubElement(case, "system-out").text = _xml("\n".join(map(_line, others)))


def _line(finding: Finding) -> str:
    place = f"{finding.path}:{finding.line}: " if finding.path and finding.line else ""
    help_ = f"\n  help: {finding.help}" if finding.help else ""
    return f"{place}{finding.severity} {finding.code}: {finding.message}{help_}"


def _xml(text: str) -> str:
    """The text without characters that XML 1.0 cannot have, which stand as their codes."""
    return "".join(c if _is_xml(c) else f"\\u{ord(c):04x}" for c in text)


def _is_xml(c: str) -> bool:
    return c in "\t\n\r" or "\x20" <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"
