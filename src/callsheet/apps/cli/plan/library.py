"""The plan library as the commands of `callsheet plan` name it, and a stored plan as they print it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.apps.cli.reading import PlanText
    from callsheet.store.library import PlanLibrary, StoredPlan

the_id = click.argument("plan_id", metavar="ID")


def open_library(folder: Path | None) -> PlanLibrary:
    """The library in a folder, by default the user's."""
    from callsheet.store.library import PlanLibrary  # noqa: PLC0415 - not for --help

    return PlanLibrary(folder)


@dataclass(frozen=True, slots=True)
class KeptPlan(options.NamedPlan):
    """A plan as `plan run` names it: an id, or the beginning of one, in a library."""

    folder: Path | None = None

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, which has its id in the library."""
        from callsheet.apps.cli.reading import read_plan  # noqa: PLC0415 - not for --help

        stored = open_library(self.folder).load(self.plan)
        text = read_plan(str(stored.path), syntax=stored.syntax, variables=variables)
        return text if text.plan is None else replace(text, plan=replace(text.plan, id=stored.id))


def kept_plan(plan_id: str, plans_folder: Path | None) -> KeptPlan:
    """What the argument ID and `--plans` name."""
    return KeptPlan(plan_id, None, plans_folder)


def as_json(stored: StoredPlan) -> dict[str, Any]:
    """A stored plan as JSON data."""
    from callsheet.ir import plan_hash  # noqa: PLC0415 - not for --help

    plan = stored.require()
    return {
        "id": stored.id,
        "path": str(stored.path),
        "syntax": str(stored.syntax),
        "title": plan.title,
        "goal": plan.goal,
        "plan_hash": plan_hash(plan),
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "does": _does(step),
                "depends_on": None if step.depends_on is None else list(step.depends_on),
            }
            for step in plan.steps
        ],
        "text": stored.text,
    }


def _does(step: Any) -> str:
    from callsheet.views.describe import describe_action  # noqa: PLC0415 - not for --help

    return describe_action(step.action)
