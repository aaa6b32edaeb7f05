"""A stored plan in the form that the commands of `callsheet plan` use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.plan.resolve import open_library
from callsheet.apps.operations.library import text_of_stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.apps.operations.reading import PlanText

the_id = click.argument("plan_id", metavar="ID")


@dataclass(frozen=True, slots=True)
class LibraryPlan(options.NamedPlan):
    """A plan as `plan run` names it: an id, or the beginning of one, in a library."""

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, which has its id in the library."""
        return text_of_stored(open_library(self.plans_folder).load(self.plan), variables)


def library_plan(plan_id: str, plans_folder: Path | None) -> LibraryPlan:
    """What the argument ID and `--plans` name."""
    return LibraryPlan(plan_id, None, plans_folder)
