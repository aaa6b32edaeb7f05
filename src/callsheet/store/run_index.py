"""The index of runs: what lists show of a run, and are filtered and sorted by, as columns of its row.

In: the events of a run, and the state of one that waits. Out: the columns. A writer sets them in the
transaction of the events that they follow from. `listing.refresh_index` makes them from the events for rows
that were written otherwise: by an earlier version, by an import, by a fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.ir import Plan
from callsheet.machine import Status
from callsheet.store.errors import JournalError
from callsheet.store.pending import NO_FACTS, RunFacts, sayable

if TYPE_CHECKING:
    from callsheet.sealing.masking import Finder
    from callsheet.store.folded import Folded

TAGS = "tags"
"""The key in a run's launch data of its tags."""
STARTED_BY = "by"
"""The tag with the name of the person who has started a run, where people are known by name."""
MOST_TAGS = 50
_LONGEST_TAG = 200
_MOST_WAITS = 3
_LONGEST_NAME = 200
_LONGEST_GOAL = 1_000
_OF_A_GOAL = 80
_MOST_TOKENS = 2**63 - 1
"""The largest number that SQLite takes; what a server says that it has used may be larger."""
_UNNAMED = frozenset({"", "-", "plan", "<plan>", "<stdin>"})
"""The names of texts that come from no file, and that nobody has named."""


class RunNames(NamedTuple):
    """What a run is called and tagged, and the goal of its plan."""

    name: str
    goal: str | None
    tags: str | None = None
    """The lines `name=value`, each between line breaks; None without tags."""

    def searched(self, run_id: str) -> str:
        """The text that a search looks in; its first line is the name."""
        name = " ".join(self.name.split())
        goal = "" if self.goal is None or self.goal == name else f"\n{self.goal}"
        return f"{name}\n{run_id}{goal}{self.tags or ''}".lower()


def names_of(plan: Plan, start: Mapping[str, Any] | None, plan_hash: str) -> RunNames:
    """The names of a run with this plan and start: the plan's title or id, else its file, else its goal.

    >>> names_of(Plan((), goal="Pay what is owed"), {"launch": {"plan": "<plan>"}}, "0123456789ab").name
    'Pay what is owed'
    """
    launch = (start or {}).get("launch")
    note = cast("Mapping[str, Any]", launch if isinstance(launch, Mapping) else {})
    noted, tags = note.get("plan"), note.get(TAGS)
    file = noted if isinstance(noted, str) and noted not in _UNNAMED else ""
    goal = " ".join((plan.goal or "").split())
    short = goal if len(goal) <= _OF_A_GOAL else f"{goal[: _OF_A_GOAL - 1]}…"
    name = plan.title or plan.id or file or short or f"plan {plan_hash[:12]}"
    return RunNames(
        sayable(name[:_LONGEST_NAME]) or "",
        sayable(goal[:_LONGEST_GOAL]) or None,
        _lines_of(cast("Mapping[str, Any]", tags)) if isinstance(tags, Mapping) else None,
    )


def _lines_of(tags: Mapping[str, Any]) -> str | None:
    lines = [f"{name}={value}" for name, value in sorted(tags.items()) if isinstance(value, str)]
    return sayable("".join(f"\n{line}" for line in lines) + "\n") if lines else None


def tags_in(lines: str | None) -> dict[str, str]:
    """The tags of a run from their lines.

    >>> tags_in("\\nenv=prod\\nteam=a=b\\n")
    {'env': 'prod', 'team': 'a=b'}
    """
    if not lines:
        return {}
    rows = (line.partition("=") for line in lines.split("\n") if line)
    return {name: value for name, _, value in rows}


def check_tags(tags: Iterable[tuple[str, object]]) -> dict[str, str]:
    """Tags as a dict; raises ValueError, which says what is wrong, for some that no run can have.

    >>> check_tags([("env", "prod")])
    {'env': 'prod'}
    >>> check_tags([("a=b", "c")])
    Traceback (most recent call last):
    ...
    ValueError: the name of the tag 'a=b' has an equals sign
    """
    checked: dict[str, str] = {}
    for name, value in tags:
        if not isinstance(value, str):
            raise ValueError(f"the value of the tag {name!r} is not a text")
        if not name.strip() or not name.isprintable():
            raise ValueError(f"a tag cannot be called {name!r}")
        if "=" in name:
            raise ValueError(f"the name of the tag {name!r} has an equals sign")
        if "," in name or "," in value:
            raise ValueError(f"the tag {name!r} has a comma")
        if not value.isprintable():
            raise ValueError(
                f"the value of the tag {name!r} has line breaks or characters that are not shown"
            )
        if len(name) + len(value) > _LONGEST_TAG:
            raise ValueError(f"the tag {name[:20]!r} has more than {_LONGEST_TAG} characters")
        if name in checked:
            raise ValueError(f"the tag {name!r} is given twice")
        checked[name] = value
    if len(checked) > MOST_TAGS:
        raise ValueError(f"a run has at most {MOST_TAGS} tags")
    return checked


def no_secret_in(lines: str | None, finder: Finder) -> None:
    """Raise JournalError (SEC003) for tags with a secret: lists show them as they are."""
    if lines is None:
        return
    for name, text in tags_in(lines).items():
        if finder.whole(name, text) is not None or finder.spans(f"{name}={text}"):
            raise JournalError(
                "SEC003",
                "a tag of the run contains a secret; tags are not encrypted",
                "leave it out: give secrets as inputs",
            )


def facts_of_end(body: Mapping[str, Any], ts: float) -> RunFacts:
    """The facts of a run with this end, which is recorded at this time.

    Raises AttributeError, TypeError, ValueError or OverflowError for a body that no version has written.
    """
    usage = cast("Mapping[str, Any]", body.get("usage") or {})
    failed = cast("list[str]", body.get("failed_steps") or ())
    step = failed[0] if failed else None
    if body.get("status") in (Status.FAILED, Status.REFUSED):
        step = cast("str | None", body.get("ended_at")) or step
    tokens = int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))
    cost = usage.get("cost")
    return RunFacts(ts, sayable(step), None, None if cost is None else float(cost), min(tokens, _MOST_TOKENS))


def facts_of_rest(folded: Folded) -> RunFacts:
    """The facts of a run that waits for people or decisions, or for a process that goes on with it."""
    from callsheet.machine.questions import Approval  # noqa: PLC0415 - lists of runs need no machine

    usage, waits = folded.usage(), list[str]()
    for _, command, _ in folded.open_asks():
        asked = command.asked
        what = f"approval of @{asked.tool}" if isinstance(asked, Approval) else "an answer"
        waits.append(f"{what} at {command.step}")
    for command in folded.in_doubt().values():
        waits.append(f"a decision on @{command.tool} at {command.step}")
    more = len(waits) - _MOST_WAITS
    text = ", ".join(waits[:_MOST_WAITS]) + (f" and {more} more" if more > 0 else "")
    cost = usage.to_json()["cost"]  # null where nothing is known of it
    return NO_FACTS._replace(
        waits_for=sayable(text) or None, cost=cost, tokens=min(usage.tokens, _MOST_TOKENS)
    )
