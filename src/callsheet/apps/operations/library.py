"""A plan of the library ready to be run: text, parameters and current tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callsheet.apps.operations.reading import PlanText
    from callsheet.diagnostics import Diagnostic
    from callsheet.ports.tools import Registry
    from callsheet.store.library import StoredPlan


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


def other_tools(text: PlanText, registry: Registry, *, is_accepted: bool) -> tuple[Diagnostic, ...]:
    """PLN025 if tools are declared differently than when the plan was saved.

    It is an error, or a warning if `is_accepted`.
    """
    from callsheet.diagnostics import Diagnostic, Severity  # noqa: PLC0415 - not for --help

    if text.stored is None:
        return ()
    plan = text.stored.result.plan
    steps = () if plan is None else plan.steps
    unnamed = {step.call.tool for step in steps if step.call is not None and step.call.positional}
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
