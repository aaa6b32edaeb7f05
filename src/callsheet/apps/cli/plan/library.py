"""The plan library as the commands of `callsheet plan` name it, and a stored plan as they print it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import say
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.apps.operations.reading import PlanText
    from callsheet.diagnostics import Diagnostic
    from callsheet.ports.tools import Registry
    from callsheet.store.library import PlanLibrary, StoredPlan

the_id = click.argument("plan_id", metavar="ID")


def open_library(folder: Path | None) -> PlanLibrary:
    """The library in a folder, by default the user's."""
    from callsheet.store import library  # noqa: PLC0415 - not for --help

    return library.open_library(folder)


@dataclass(frozen=True, slots=True)
class KeptPlan(options.NamedPlan):
    """A plan as `plan run` names it: an id, or the beginning of one, in a library."""

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, which has its id in the library."""
        return text_of_stored(open_library(self.plans_folder).load(self.plan), variables)


def kept_plan(plan_id: str, plans_folder: Path | None) -> KeptPlan:
    """What the argument ID and `--plans` name."""
    return KeptPlan(plan_id, None, plans_folder)


def read_named(name: str, folder: Path | None, variables: Iterable[str] = ()) -> PlanText:
    """The plan of a name that may be that of a file or an id of the library; a file comes first.

    Raises CallsheetError: CFG012 where it is neither, and what the library says of an id.
    """
    from callsheet.apps.cli.reading import read_plan  # noqa: PLC0415 - not for --help

    path = Path(name)
    if path.exists() and not path.is_dir():
        if not path.suffix and name in open_library(folder).ids():
            say(f"{name} is a file here; the plan of the library is run with: callsheet plan run {name}")
        return read_plan(name, variables=variables)
    try:
        stored = open_library(folder).load(name)
    except CallsheetError as error:
        if error.diagnostics[0].code not in ("PLN001", "PLN002"):
            raise
        raise _neither(name, error) from error
    return text_of_stored(stored, variables)


def _neither(name: str, error: CallsheetError) -> CallsheetError:
    said = error.diagnostics[0]
    more = f"; {said.help}" if said.code == "PLN002" and said.help else ""
    way_out = f"give a file, the id of a plan of the library, or - for standard input{more}"
    if said.message.startswith("more than one"):
        return CallsheetError.single("CFG012", f"{name} is no file, and {said.message}", help=way_out)
    message = f"{name} cannot be read: there is no such file, and no plan of this id in the library"
    return CallsheetError.single("CFG012", message, help=way_out)


def text_of_stored(stored: StoredPlan, variables: Iterable[str] = ()) -> PlanText:
    """A plan of the library as commands take plans: under its id, with what is kept of it."""
    from callsheet.apps.operations.reading import text_of  # noqa: PLC0415 - not for --help

    names = [*variables, *(param.name for param in stored.params)]
    text = text_of(Path(stored.place), stored.result.source, syntax=stored.syntax, variables=names)
    plan = None if text.plan is None else replace(text.plan, id=stored.id)
    given = {param.name for param in stored.params}
    said = tuple(d for d in text.diagnostics if d.code != "MIC103" or not _is_of(d, given, text))
    return replace(text, plan=plan, stored=stored, diagnostics=said)


def _is_of(said: Diagnostic, names: set[str], text: PlanText) -> bool:
    """Whether a finding is about a bare word that is a parameter."""
    span = said.span
    return span is not None and text.source.text[span.start : span.end] in names


def bound(text: PlanText, inputs: dict[str, Any], variables: Iterable[str]) -> dict[str, Any]:
    """The variables of a run: what `--var` gives, and the defaults of the plan's parameters.

    Raises CallsheetError (PLN023, PLN024) for parameters that are missing or of another kind.
    """
    stored = text.stored
    if stored is None or not stored.params:
        return inputs
    from callsheet.store.library import bind  # noqa: PLC0415 - not for --help

    pairs = (given.partition("=") for given in variables)
    texts = {name.strip().removeprefix("$"): value for name, _, value in pairs}
    return bind(stored.id, stored.params, inputs, texts)


def changed_tools(text: PlanText, registry: Registry) -> tuple[str, ...]:
    """The tools that are declared differently now than when the plan was saved."""
    if text.stored is None:
        return ()
    now = ((name, then, registry.get(name)) for name, then in text.stored.tools.items() if then is not None)
    return tuple(name for name, then, tool in now if tool is not None and (tool.spec.pin or "") != then)


def other_tools(text: PlanText, names: Iterable[str], *, is_accepted: bool) -> Diagnostic:
    """PLN025 for tools that have changed: an error, or a warning where that is accepted."""
    from callsheet.diagnostics import Diagnostic, Severity  # noqa: PLC0415 - not for --help

    assert text.stored is not None
    what = ", ".join(f"@{name}" for name in names)
    verb = "is" if "," not in what else "are"
    message = f"the plan {text.stored.name} was saved for other tools: {what} {verb} declared differently now"
    if is_accepted:
        return Diagnostic("PLN025", Severity.WARNING, message)
    way_out = (
        "look at it (`callsheet tools`), then save the plan again, or run it with --accept-changed-tools"
    )
    return Diagnostic("PLN025", Severity.ERROR, message, help=way_out)
