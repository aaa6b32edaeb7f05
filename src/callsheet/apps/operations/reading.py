"""Reads a text as a plan: LTP text, Micro-CLI, a JSON plan, Python, or canonical JSON.

In: a text, and its path, whose suffix decides the syntax (`.ltp`, `.micro`, `.json`, `.yaml`, `.py`); without
one the syntax is detected. Out: the text with its plan, or with all errors. Nothing is run, and tools are not
checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.api.texts import is_canonical_json, plan_of_json
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.frontends.spelling import (
    Reading,
    Syntax,
    doubts_about,
    is_json,
    read_as,
    read_plan_text,
)
from callsheet.ir import Plan
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.policy.model import Policy
    from callsheet.store.library import StoredPlan

_SUFFIXES = {
    ".ltp": Syntax.LTP,
    ".micro": Syntax.MICRO,
    ".json": Syntax.DAG,
    ".yaml": Syntax.DAG,
    ".yml": Syntax.DAG,
    ".py": Syntax.PYTHON,
}
_YAML = (".yaml", ".yml")
_BARE_WORD = "MIC103"


@dataclass(frozen=True, slots=True)
class PlanText:
    """A text that was read as a plan; `plan` is None if `diagnostics` contain an error.

    `path` is the file, None for standard input; `syntax` is None for canonical JSON and for a text in no
    syntax. If there is no plan, `partial` has the steps that could be parsed, and `lost` the places of the
    others.
    """

    path: Path | None
    source: Source
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    partial: Plan | None = None
    lost: tuple[Span, ...] = ()
    syntax: Syntax | None = None
    is_json: bool = False
    """Whether the plan was given in its canonical JSON form."""
    is_yaml: bool = False
    """Whether a JSON plan was given as YAML."""
    function: str | None = None
    """The function of a Python file that is meant, if one was named."""
    stored: StoredPlan | None = None
    """The plan of the library that this is; None for a file and for standard input."""

    @property
    def title(self) -> str:
        """What it is called in messages: the name of its text, with the function that was named."""
        return self.source.name if self.function is None else f"{self.source.name}:{self.function}"

    @property
    def unread(self) -> str:
        """The text of the steps that could not be parsed."""
        return "\n".join(self.source.text[slice(*span)] for span in self.lost)

    def under(self, policy: Policy) -> Policy:
        """The policy for this text: what the author of a saved plan had read counts for what it says."""
        return policy if self.stored is None else policy.written_by(self.stored.label)

    def require(self) -> Plan:
        """The plan; raises CallsheetError with all errors of the text."""
        if self.plan is None:
            raise CallsheetError(self.diagnostics, self.source)
        return self.plan


def plan_text(
    text: str,
    name: str = "<plan>",
    *,
    syntax: Syntax | None = None,
    strict: bool = False,
    variables: Iterable[str] = (),
) -> PlanText:
    """Like `text_of`, for a text that is not from a file; `name` is its name in messages."""
    return text_of(None, Source(name, text), syntax=syntax, strict=strict, variables=variables)


def text_of(
    path: Path | None,
    source: Source,
    *,
    syntax: Syntax | None = None,
    strict: bool = False,
    variables: Iterable[str] = (),
    function: str | None = None,
) -> PlanText:
    """Read a text as a plan.

    Without `syntax` the path's suffix or the text decides. `strict` makes loose spelling an error;
    `variables` are the names of those that the run will get; `function` is the one of a Python file that is
    meant.
    """
    return _with_used(path, _text_of(path, source, syntax, strict, tuple(variables), function))


def _with_used(path: Path | None, text: PlanText) -> PlanText:
    """The text with the plans that it uses; only a text in a file can use others."""
    if path is None or text.plan is None or text.plan.tree is None:
        return text
    from callsheet.api.used_plans import with_used_plans  # noqa: PLC0415 - only for version 2

    try:
        return replace(text, plan=with_used_plans(text.plan, path))
    except CallsheetError as error:
        return replace(text, plan=None, diagnostics=(*text.diagnostics, *error.diagnostics))


def _text_of(
    path: Path | None,
    source: Source,
    syntax: Syntax | None,
    strict: bool,
    variables: tuple[str, ...],
    function: str | None,
) -> PlanText:
    by_suffix = None if path is None else _SUFFIXES.get(path.suffix.lower())
    if syntax is None and (by_suffix is Syntax.DAG or (by_suffix is None and is_json(source.text))):
        return _from_data(path, source)
    reading = read_plan_text(
        source.text,
        source.name,
        syntax or by_suffix,
        strict=strict,
        variables=variables,
        function=function,
    )
    result, more = reading.result, _bare_variables(source, reading, variables)
    if result.plan is None and syntax is None:
        more = doubts_about(reading, source.text, by_suffix)
        if reading.syntax is None:
            return PlanText(path, source, None, more, result.partial)
    diagnostics = (*result.diagnostics, *more)
    is_yaml = reading.syntax is Syntax.DAG and not is_json(source.text)
    return PlanText(
        path,
        source,
        result.plan,
        diagnostics,
        result.partial,
        result.lost,
        reading.syntax,
        is_yaml=is_yaml,
        function=function,
    )


def _bare_variables(source: Source, reading: Reading, variables: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Hints for bare words of Micro-CLI that are variables only because the run gets them."""
    if reading.syntax is not Syntax.MICRO or not variables:
        return ()
    alone = read_as(Syntax.MICRO, source.text, source.name)
    still = {d.span for d in reading.result.diagnostics if d.code == _BARE_WORD}
    found = [
        d for d in alone.diagnostics if d.code == _BARE_WORD and d.span is not None and d.span not in still
    ]
    return tuple(_bare_variable(d, source.text[d.span.start : d.span.end]) for d in found if d.span)


def _bare_variable(diagnostic: Diagnostic, word: str) -> Diagnostic:
    message = f"{word} is a variable here, because the run gets it; otherwise it is a string"
    return replace(diagnostic, severity=Severity.WARNING, message=message, help=f"write ${word}", fix=None)


def _from_data(path: Path | None, source: Source) -> PlanText:
    """A plan in callsheet's own canonical JSON, or a JSON plan in JSON or YAML."""
    is_yaml = path is not None and path.suffix.lower() in _YAML
    if not is_yaml and is_canonical_json(source.text):
        try:
            return PlanText(path, source, plan_of_json(source), (), is_json=True)
        except CallsheetError as error:
            return PlanText(path, source, None, error.diagnostics, is_json=True)
    from callsheet.frontends.dag import parse_dag  # noqa: PLC0415 - only for a JSON plan

    result = parse_dag(source.text, source.name, is_yaml=is_yaml)
    found, partial = result.diagnostics, result.partial
    return PlanText(path, source, result.plan, found, partial, result.lost, Syntax.DAG, is_yaml=is_yaml)
