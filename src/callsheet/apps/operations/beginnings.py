"""What runs begin with: the plan that calls one tool; what a recorded run was given, for the next one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from callsheet.apps.operations.runs import plan_name
from callsheet.apps.operations.schema import Object, PlanHash
from callsheet.diagnostics import CallsheetError, Source
from callsheet.machine.limits import IN_REQUESTS, Limits
from callsheet.sealing.keys import has_placeholder

if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo


def one_call(tool: str, arguments: Iterable[str]) -> Source:
    """The text of a plan that calls a tool with a variable for each argument, and answers with its result.

    Raises CallsheetError as `require_names` does.

    >>> print(one_call("ADD", ["a"]).text.splitlines()[2])
    S1: @ADD (a=$a) > $result ON_FAIL TERMINATE
    """
    names = [*arguments]
    require_names(tool, names)
    given = ", ".join(f"{name}=${name}" for name in names)
    lines = (
        "# ltp: 1",
        "PLAN_START",
        f"S1: @{tool} ({given}) > $result ON_FAIL TERMINATE",
        "S2: @RESPOND ($result)",
        "PLAN_END",
        "",
    )
    return Source(f"call {tool.lower()}", "\n".join(lines))


def require_names(tool: str, arguments: Iterable[str]) -> None:
    """Raise CallsheetError (CFG011) for what is no name, of which a text might make something else."""
    for name, what in ((tool, "tool"), *((each, "argument") for each in arguments)):
        if not name.isidentifier():
            raise CallsheetError.single(
                "CFG011",
                f"the {what} {name[:60]!r} cannot be given: plans cannot write its name",
                help="names consist of letters, digits and _",
            )


class BeginningRow(TypedDict):
    """The plan and the inputs that a run was started with."""

    name: Annotated[str, "the name of its plan"]
    plan: Annotated[str, "the text of its plan; empty if it was not started from a text"]
    plan_hash: PlanHash
    library: Annotated[str | None, "its plan in the library, if it is from there"]
    inputs: Annotated[Object, "the inputs that can be shown"]
    sealed: Annotated[list[str], "the inputs that have to be given again, since they are secret"]
    tags: dict[str, str]
    approve: Annotated[list[str], "the tools whose calls needed approval"]
    approval_timeout: Annotated[Object, "the seconds for an approval, by tool"]
    limits: Annotated[Object, "the limits that are not those of this server"]
    policy: Annotated[str | None, "the policy of the run"]


def beginning_of(journal: Journal, info: RunInfo, usual: Limits) -> BeginningRow:
    """What a run was started with where limits are `usual`; raises JournalError as `Journal.events` does."""
    first = next(iter(journal.events(info.run_id, 0, lenient=True)))
    body = first.body or {}
    inputs = cast("dict[str, Any]", body.get("inputs") or {})
    launch = cast("dict[str, Any]", body.get("launch") or {})
    sealed = {name for name, value in inputs.items() if has_placeholder(value)} | {*body.get("secret", ())}
    library = cast("dict[str, Any]", launch.get("library") or {})
    known = usual.to_json()
    return {
        "name": plan_name(journal, info),
        "plan": journal.plan(info.plan_hash)[1],
        "plan_hash": info.plan_hash,
        "library": library.get("id"),
        "inputs": {name: value for name, value in inputs.items() if name not in sealed},
        "sealed": sorted(sealed),
        "tags": dict(launch.get("tags") or {}),
        "approve": list(body.get("approve") or ()),
        "approval_timeout": dict(body.get("approval_timeout") or {}),
        "limits": {
            name: bound
            for name, bound in cast("dict[str, Any]", body.get("limits") or {}).items()
            if name in IN_REQUESTS and bound != known.get(name)
        },
        "policy": cast("dict[str, Any]", body.get("policy") or {}).get("name"),
    }
