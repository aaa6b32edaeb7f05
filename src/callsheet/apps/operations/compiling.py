"""The result of compiling a goal, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callsheet.api.compiling import Compiled, CompileFailed
from callsheet.api.plan import Plan
from callsheet.apps.compiling import (
    CompileOutcome,
    GoalRequest,
    LibraryMatch,
    ProofTerms,
    compile_with_toolbox,
)
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox
from callsheet.diagnostics import Diagnostic, Source, to_json
from callsheet.store.library import PlanLibrary


@dataclass(frozen=True, slots=True)
class Compilation:
    """The result for a goal; `near` are plans of the library for similar goals, which were not used."""

    goal: str
    made: CompileOutcome
    near: Sequence[LibraryMatch] = ()

    @property
    def ok(self) -> bool:
        """Whether there is a plan."""
        return self.made.text is not None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Those about tools and plans left out, then those of the plan or of the model's invalid answer."""
        result = self.made.result
        return (*self.made.tool_diagnostics, *(() if result is None else result.findings.diagnostics))

    @property
    def source(self) -> Source | None:
        """The text that the diagnostics point into."""
        return None if self.made.result is None else self.made.result.findings.source

    def to_json(self) -> dict[str, Any]:
        """The text, its origin and the model usage, as data."""
        made = self.made
        data: dict[str, Any] = {"ok": self.ok, "goal": self.goal, "text": made.text, "from": "model"}
        if made.from_library is not None:
            data |= {"from": "library", "id": made.from_library.id, "hash": Plan(made.from_library.plan).hash}
        data["near"] = [{"id": kept.id, "goal": kept.goal, "score": kept.score} for kept in self.near]
        if made.result is None:
            return data
        result = _of_result(made.result)
        result["diagnostics"] = [*to_json(made.tool_diagnostics), *result["diagnostics"]]
        return data | result


def _of_result(result: Compiled | CompileFailed) -> dict[str, Any]:
    data: dict[str, Any] = {
        "diagnostics": result.findings.to_json(),
        "accounting": result.accounting.to_json(),
    }
    if result.ok:
        return {**data, "hash": result.require().hash}
    return {**data, "answer": result.text}


async def compile_text(
    goal: str,
    setup: Setup,
    toolbox: Toolbox,
    *,
    context: str = "",
    library: PlanLibrary | None = None,
    terms: ProofTerms | None = None,
) -> Compilation:
    """A plan for a goal, with open tools: from the `library` if it has one for this goal, else a new one.

    What the policy of the `terms` refuses counts as an error. Plans of the library for similar goals are
    listed, not used. Raises CallsheetError (CMP001) if there is no model to ask.
    """
    near: list[LibraryMatch] = []

    def takes(kept: LibraryMatch) -> bool:
        near.append(kept)
        return False

    request = GoalRequest(goal=goal, context=context, library=library, accept=takes, terms=terms)
    made = await compile_with_toolbox(toolbox, request, setup)
    return Compilation(goal, made, tuple(near))
