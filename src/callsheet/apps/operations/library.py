"""Plans of the library: ready to be run, with parameters and current tools; and as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, cast

from callsheet.apps.operations.schema import Count, DiagnosticRow, Object, PlanHash

if TYPE_CHECKING:
    from callsheet.apps.operations.reading import PlanText
    from callsheet.diagnostics import Diagnostic
    from callsheet.ports.tools import Registry
    from callsheet.store.library import Listed, Param, StoredPlan


def text_of_stored(stored: StoredPlan, variables: Iterable[str] = ()) -> PlanText:
    """A plan of the library as a text with its plan, id and stored parameters."""
    from callsheet.apps.operations.reading import text_of  # noqa: PLC0415 - not for --help

    names = [*variables, *(param.name for param in stored.params)]
    text = text_of(Path(stored.place), stored.result.source, syntax=stored.syntax, variables=names)
    plan = None if text.plan is None else replace(text.plan, id=stored.id)
    given = {param.name for param in stored.params}
    diagnostics = tuple(d for d in text.diagnostics if d.code != "MIC103" or not _is_of(d, given, text))
    return replace(text, plan=plan, stored=stored, diagnostics=diagnostics)


def _is_of(diagnostic: Diagnostic, names: set[str], text: PlanText) -> bool:
    """Whether a finding is about a bare word that is a parameter."""
    span = diagnostic.span
    return span is not None and text.source.text[span.start : span.end] in names


def bound(text: PlanText, inputs: dict[str, Any], variables: Iterable[str]) -> dict[str, Any]:
    """The variables of a run: `inputs`, converted as the plan's parameters require, and their defaults.

    `variables` are the `NAME=VALUE` texts of `--var`. Raises CallsheetError (PLN023, PLN024) for parameters
    that are missing or of another kind.
    """
    stored = text.stored
    if stored is None or not stored.params:
        return inputs
    from callsheet.store.library import bind  # noqa: PLC0415 - not for --help

    pairs = (given.partition("=") for given in variables)
    texts = {name.strip().removeprefix("$"): value for name, _, value in pairs}
    return bind(stored.id, stored.params, inputs, texts)


def origin_note(text: PlanText) -> dict[str, Any]:
    """What a run records of where its plan came from; empty for standard input and a numbered version."""
    from callsheet.api.texts import file_note  # noqa: PLC0415 - not for --help

    if text.stored is not None:
        from callsheet.api.plan_sources import library_note  # noqa: PLC0415 - imports the store

        return {"library": library_note(text.stored)} if text.stored.library else {}
    if text.path is None:
        return {}
    return {"file": file_note(text.path, text.source.text, None if text.is_json else text.syntax)}


def other_tools(text: PlanText, registry: Registry, *, is_accepted: bool) -> tuple[Diagnostic, ...]:
    """PLN025 if tools are declared differently than when the plan was saved.

    It is an error, or a warning if `is_accepted`.
    """
    from callsheet.diagnostics import Diagnostic, Severity  # noqa: PLC0415 - not for --help

    if text.stored is None:
        return ()
    from callsheet.store.library.goals import positional_tools  # noqa: PLC0415 - brings the plan library

    plan = text.stored.result.plan
    unnamed: set[str] = set() if plan is None else positional_tools(plan)
    now = ((name, then, registry.get(name)) for name, then in text.stored.tools.items() if then is not None)
    changed: list[str] = []
    unordered: list[str] = []
    for name, then, tool in now:
        if tool is None or (tool.spec.pin or "") == then:
            continue
        if not tool.spec.has_pin(then, tool.spec.parameter_names):
            changed.append(name)
        elif name in unnamed:
            unordered.append(name)
    if not changed and not unordered:
        return ()
    what = ", ".join(f"@{name}" for name in changed or unordered)
    if changed:
        verb = "is" if len(changed) == 1 else "are"
        message = (
            f"the plan {text.stored.name} was saved for other tools: {what} {verb} declared differently now"
        )
    else:
        message = (
            f"the plan {text.stored.name} gives {what} values without names, and was saved without the order"
            " of the arguments that they rely on"
        )
    if is_accepted:
        return (Diagnostic("PLN025", Severity.WARNING, message),)
    hint = "check them (`callsheet tools`), then save the plan again, or run it with --accept-changed-tools"
    return (Diagnostic("PLN025", Severity.ERROR, message, help=hint),)


# ---------------------------------------------------------------- as data


class ParamRow(TypedDict):
    """A variable that a run of the plan needs."""

    name: str
    kind: str
    default: NotRequired[Any]


class ListedPlan(TypedDict):
    """A plan of the library in a list."""

    id: str
    path: str
    syntax: str
    title: str | None
    goal: str | None
    steps: Annotated[Count | None, "null if its text has errors"]
    version: Count | None
    is_edited: bool
    params: list[ParamRow]


class PlanList(TypedDict):
    """The plans of the library."""

    plans: list[ListedPlan]


class StoredStep(TypedDict):
    """A step of a stored plan."""

    id: str
    title: str | None
    does: str
    depends_on: list[str] | None


class StoredResult(TypedDict):
    """A plan of the library."""

    id: str
    path: str
    syntax: str
    title: str | None
    goal: str | None
    plan_hash: PlanHash
    version: Count | None
    edited: Annotated[bool, "whether its file has changed since that version"]
    params: Annotated[list[ParamRow], "the variables that a run needs"]
    tools: Annotated[Object, "the hashes of the declarations of its tools, by name"]
    compiled: Annotated[Object | None, "how it was compiled"]
    steps: list[StoredStep]
    text: Annotated[str, "the text of the plan"]
    diagnostics: NotRequired[Annotated[list[DiagnosticRow], "of its text, if it was just saved"]]


def _param_row(param: Param) -> ParamRow:
    return cast("ParamRow", param.to_json())


def listed_json(plan: Listed) -> ListedPlan:
    """A plan of the library as a row of a list."""
    return {
        "id": plan.id,
        "path": plan.place,
        "syntax": str(plan.syntax),
        "title": plan.title,
        "goal": plan.goal,
        "steps": plan.steps,
        "version": plan.version,
        "is_edited": plan.is_edited,
        "params": [_param_row(param) for param in plan.params],
    }


def stored_json(stored: StoredPlan) -> StoredResult:
    """A stored plan as JSON data."""
    from callsheet.ir import plan_hash  # noqa: PLC0415 - not for --help
    from callsheet.views.describe import describe_action  # noqa: PLC0415 - as above

    plan = stored.require()
    return {
        "id": stored.id,
        "path": stored.place,
        "syntax": str(stored.syntax),
        "title": plan.title,
        "goal": stored.goal if stored.record is not None and stored.record.goal else plan.goal,
        "plan_hash": plan_hash(plan),
        "version": stored.version,
        "edited": stored.is_edited,
        "params": [_param_row(param) for param in stored.params],
        "tools": dict(stored.tools),
        "compiled": None if stored.compiled is None else dict(stored.compiled),
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "does": describe_action(step.action),
                "depends_on": None if step.depends_on is None else list(step.depends_on),
            }
            for step in plan.steps
        ],
        "text": stored.text,
    }
