"""Approvals that reach beyond one call: those given for a whole plan, and those that another run has had.

In: a call that needs approval, the policy of its run, the journal. Out: what an approval for the plan covers,
whether it covers another call, the earlier run in which a person approved the same, with what differs, and
what has changed in a plan since a person last approved calls of it.

An approval for a plan holds in one run, for one step, and only for calls in which everything is equal that
decides what is done: recipients, paths, amounts, whatever the policy calls a control argument, the labels and
sources of all arguments, and the reasons to ask. What may differ is content. A yes to a program
(`program_question`) covers single calls.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet import lazy
from callsheet.ir import JSON
from callsheet.machine import Approval, Verdict
from callsheet.machine.questions import asked_from_json
from callsheet.sealing.sealer import is_sealed
from callsheet.store.events import EventType

if TYPE_CHECKING:
    from callsheet.policy.model import Policy
    from callsheet.store import Journal

STANDING = "standing"
"""The field of a message that holds what an approval for the plan covers."""
PROGRAM = "program"
"""The field of a message that holds a call which a yes to the program covers."""
_MOST_RUNS = 50
"""How many runs are searched for an approval; where there are more, the question says so."""
_MOST_LINES = 24
"""How many changed lines of a plan are shown."""


def deciding_arguments(policy: Policy | None, tool: str, args: Mapping[str, JSON]) -> tuple[str, ...]:
    """The arguments of a call that decide what it does; all of them if nothing is known of the tool.

    >>> from callsheet.policy.model import Policy, ToolRule
    >>> mail = Policy(tools={"MAIL": ToolRule(audience_arg="to", control=("folder",))})
    >>> deciding_arguments(mail, "MAIL", {"to": "ada", "cc": "", "folder": "a", "body": "x"})
    ('to', 'cc', 'folder')
    >>> deciding_arguments(None, "MAIL", {"body": "x"})
    ('body',)
    """
    if policy is None:
        return tuple(args)
    from callsheet.policy.builtins import Reach  # noqa: PLC0415 - only under a policy
    from callsheet.policy.calls import Argument  # noqa: PLC0415 - as above
    from callsheet.policy.classes import EVERY  # noqa: PLC0415 - as above
    from callsheet.policy.judge import judge_of  # noqa: PLC0415 - as above
    from callsheet.policy.rules.receivers import names_recipients  # noqa: PLC0415 - as above

    traits = judge_of(policy).traits(tool)
    if traits is None or EVERY in traits.control or traits.reach is Reach.WORLD:
        return tuple(args)
    control = {name.casefold() for name in (*traits.control, traits.address, traits.path) if name}
    told = traits.reach is Reach.RECIPIENT
    return tuple(
        name
        for name in args
        if name.casefold() in control
        or (told and names_recipients(Argument(name, ("",)), traits.audience))
        or name[:1].isdigit()
    )


def coverage(asked: Approval, step: str, policy: Policy | None) -> dict[str, Any]:
    """What an approval of this call for the whole plan covers, as JSON data."""
    deciding = deciding_arguments(policy, asked.tool, asked.args)
    return {
        "step": step,
        "tool": asked.tool,
        "plan": asked.plan,
        "names": sorted(asked.args),
        "args": {name: asked.args[name] for name in deciding},
        "labels": dict(asked.labels),
        "why": list(asked.why),
    }


def covers(covered: Mapping[str, Any], asked: Approval, step: str) -> bool:
    """Whether an approval for the plan covers a call; what is sealed covers nothing."""
    if asked.answer or is_sealed(covered):
        return False
    args = covered.get("args")
    if not isinstance(args, dict):
        return False
    now = {
        "step": step,
        "tool": asked.tool,
        "plan": asked.plan,
        "names": sorted(asked.args),
        "labels": dict(asked.labels),
        "why": list(asked.why),
    }
    given = asked.args
    values = cast("dict[str, JSON]", args)
    return all(covered.get(name) == value for name, value in now.items()) and all(
        name in given and _same(given[name], value) for name, value in values.items()
    )


def _same(a: JSON, b: JSON) -> bool:
    return type(a) is type(b) and a == b


_DECIDED = lazy.pattern(r"^untrusted data decides \([^()]*\) whether ")


def covers_call(covered: object, asked: Approval, key: str) -> bool:
    """Whether a yes to the program covers a call: that one, with what was shown, for no other reason."""
    if asked.answer or asked.inputs or not isinstance(covered, dict):
        return False
    shown = cast("dict[str, Any]", covered)
    if is_sealed(shown):
        return False
    args: dict[str, JSON] = shown.get("args", {})
    if (shown.get("key"), shown.get("tool"), shown.get("plan")) != (key, asked.tool, asked.plan):
        return False
    free, why = set(shown.get("free", ())), set(map(_plain, shown.get("why", ())))
    if {*asked.args} != {*args} | free or not {_plain(each) for each in asked.why} <= why:
        return False
    return all(_is_equal(asked.args[name], value) for name, value in args.items())


def _is_equal(a: JSON, b: JSON) -> bool:
    """Equality of JSON data in which 1, 1.0 and true are three values."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def _plain(why: str) -> str:
    """A reason without the steps that decided, of which a run knows more than the proof."""
    return _DECIDED.sub("untrusted data decides whether ", why)


def in_words(covered: Mapping[str, Any], asked: Approval) -> str:
    """What an approval for the plan covers, for the person who gives it."""
    args = cast("Mapping[str, JSON]", covered["args"])
    free = [name for name in asked.args if name not in args]
    same = f"the same {_and(list(args))}" if args else "any arguments"
    other = f", whatever its {_and(free)}" if free and args else ""
    return f"every call of @{asked.tool} by {covered['step']} in this run with {same}{other}"


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


class Precedent(NamedTuple):
    """The same call in an earlier run: who approved it there, when, and what was different."""

    run_id: str
    by: str
    ts: float
    differs: tuple[str, ...]

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        if not self.differs:
            same = "the same call, with the same arguments from the same steps"
            return _on_one_line(f"{same}, was approved{who} for run {self.run_id}")
        differed = _and(list(self.differs))
        return _on_one_line(
            f"this step's call was approved{who} for run {self.run_id}, but {differed} differed"
        )


class Unsearched(NamedTuple):
    """No approval in the newest runs of a plan, of which there are more."""

    runs: int

    def __str__(self) -> str:
        none = f"no call like it was approved in the newest {self.runs} runs of this plan"
        return f"{none}; older ones were not read"


def precedent_of(journal: Journal, run_id: str, step: str, asked: Approval) -> Precedent | Unsearched | None:
    """The latest earlier run of the same plan in which a person approved the call of this step.

    One that differs in nothing is preferred to later ones that differ.
    """
    closest: Precedent | None = None
    infos = journal.runs_of_plan(_MOST_RUNS, plan_hash=journal.find_run(run_id).plan_hash)
    for info in infos:
        if info.run_id == run_id:
            continue
        for by, ts, before in _approved(journal, info.run_id, step):
            if before.plan != asked.plan:
                continue
            found = Precedent(info.run_id, by, ts, tuple(_different(before, asked)))
            if not found.differs:
                return found
            closest = closest or found
    return closest or _unsearched(infos)


def _unsearched(infos: Sequence[object]) -> Unsearched | None:
    return Unsearched(_MOST_RUNS) if len(infos) == _MOST_RUNS else None


class ChangedPlan(NamedTuple):
    """The last run of a plan of this id in which a person approved a call, and what has changed since."""

    run_id: str
    by: str
    lines: tuple[str, ...]
    """The lines of the text that went, behind `-`, and that came, behind `+`."""

    def __str__(self) -> str:
        who = f" by {self.by}" if self.by else ""
        shown = [*self.lines[:_MOST_LINES]]
        if len(self.lines) > _MOST_LINES:
            shown.append(f"… and {len(self.lines) - _MOST_LINES} more changed lines")
        said = f"this plan has changed since calls of it were approved{who} for run {self.run_id}"
        said += ":" if shown else ", but no line of its text"
        return "\n".join((_on_one_line(said), *shown))


def _on_one_line(text: str) -> str:
    """A text in which nobody's name, nor that of an argument, begins a line of the question."""
    return " ".join(text.split())


def changed_since_approval(journal: Journal, run_id: str, asked: Approval) -> ChangedPlan | Unsearched | None:
    """What has changed in the plan that asks since a person last approved calls of a plan with this id.

    None if nothing has, if nobody ever did, or if the plan has no id, as those of the library have. Of a run
    with a new plan, that one is compared.
    """
    now = journal.find_run(run_id)
    if now.plan_id is None:
        return None
    infos = journal.runs_of_plan(_MOST_RUNS, plan_id=now.plan_id)
    for info in infos:
        approved = () if info.run_id == run_id else (*_approved(journal, info.run_id),)
        if not approved:
            continue
        by, _, last = approved[-1]
        if last.plan == asked.plan:
            return None
        before, after = (journal.plan(one.plan)[1].splitlines() for one in (last, asked))
        lines = [*difflib.unified_diff(before, after, n=0, lineterm="")][2:]
        changed = tuple(line for line in lines if not line.startswith("@@"))
        return ChangedPlan(info.run_id, by, changed)
    return _unsearched(infos)


def _approved(
    journal: Journal, run_id: str, step: str | None = None
) -> Iterator[tuple[str, float, Approval]]:
    """The calls, of one step if given, that were approved in a run: by whom, when, and what was asked."""
    asked: dict[str, Approval] = {}
    for row in journal.question_events(run_id):
        body = row.body or {}
        if step is not None and row.step != step:
            continue
        try:
            if row.type is EventType.ASK and isinstance(question := asked_from_json(body), Approval):
                asked[body["digest"]] = question
            elif row.type is EventType.SIGNAL and body.get("verdict") == Verdict.APPROVE:
                before = asked.get(body["digest"])
                if before is not None:
                    yield str(body.get("by") or ""), row.ts, before
        except (KeyError, TypeError, ValueError):
            continue


def _different(before: Approval, now: Approval) -> Iterator[str]:
    """What differs between two calls, in words: arguments, where their data came from, the reasons."""
    if before.tool != now.tool:
        yield "the tool"
    for name in dict.fromkeys((*before.args, *now.args)):
        if name not in before.args or name not in now.args or not _same(before.args[name], now.args[name]):
            yield name
    if dict(before.labels) != dict(now.labels):
        yield "where its data came from"
    if list(before.why) != list(now.why):
        yield "the reason to ask"
    if before.inputs != now.inputs:
        yield "the texts for the model"


def policy_line(policy: Policy, tool: str, args: Mapping[str, JSON]) -> str | None:
    """The lines of a policy under which this call to its recipients would not be asked about again.

    None if no line can say that: the tool has no recipients, or the reason is another than who they are.

    >>> from callsheet.policy.model import Policy, ToolRule, When
    >>> rule = ToolRule(audience_arg="to", approval=When.IF_UNTRUSTED_OR_OUTSIDE, destructive=False)
    >>> print(policy_line(Policy(tools={"MAIL": rule}), "MAIL", {"to": "Ada <ada@c.example>", "body": "x"}))
    [tools."@MAIL"]
    trusted_audience = ["ada@c.example"]
    """
    from callsheet.policy.audiences import Audiences, mailbox_of  # noqa: PLC0415 - only under a policy
    from callsheet.policy.builtins import Reach  # noqa: PLC0415 - as above
    from callsheet.policy.calls import Argument  # noqa: PLC0415 - as above
    from callsheet.policy.judge import judge_of  # noqa: PLC0415 - as above
    from callsheet.policy.rules.receivers import names_recipients  # noqa: PLC0415 - as above

    traits = judge_of(policy).traits(tool)
    if traits is None or traits.reach is not Reach.RECIPIENT or traits.destructive:
        return None
    known = Audiences(policy.audiences)
    told = [text for name, value in args.items() if names_recipients(Argument(name, ("",)), traits.audience)
            for text in _texts(value)]  # fmt: skip
    strangers = [
        mailbox_of(who)
        for text in told
        for who, audiences in known.of_recipients(text, traits.trusted_audience)
        if not audiences and who.strip()
    ]
    if not strangers or any("*" in who for who in strangers):
        return None
    trusted = dict.fromkeys((*traits.trusted_audience, *strangers))
    listed = ", ".join(map(json.dumps, trusted))
    return f'[tools."@{tool}"]\ntrusted_audience = [{listed}]'


def _texts(value: JSON) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(text for item in value for text in _texts(item))
    return ()
