"""The argument ID of the commands of `callsheet plan`: a plan of the library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli.plan_argument import NamedPlan, open_library
from callsheet.apps.operations.library import text_of_stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.apps.operations.reading import PlanText

plan_id_argument = click.argument("plan_id", metavar="ID")


@dataclass(frozen=True, slots=True)
class LibraryPlan(NamedPlan):
    """A plan named by its id, or a unique prefix of it, in a library."""

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, which has the id of the library."""
        return text_of_stored(open_library(self.plans_folder).load(self.plan), variables)


def library_plan(plan_id: str, plans_folder: Path | None) -> LibraryPlan:
    """The plan that ID and `--plans` name."""
    return LibraryPlan(plan_id, None, plans_folder)
