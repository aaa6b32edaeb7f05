"""Asking people: what a run asks, which calls need a yes first, and what an answer is bound to.

In: attempts of `@ASK_HUMAN` and of calls that the operator wants to be asked about. Out: the question
with a digest over all that it shows. An answer counts once, and only with the digest of the
question that is open: an approval of other arguments, of another item, of an earlier attempt
or of another plan is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.ir import JSON, canonical_tool_name, executor_name, plan_hash
from callsheet.machine.frames import Attempt
from callsheet.machine.monitor.admitted import Admitted
from callsheet.machine.program import Kind, Program

ASK = "ASK_HUMAN"
"""The operation by which a step asks."""
ApprovalTimeout: TypeAlias = "float | str | Mapping[str, float | str]"
"""How long a call waits for a yes: seconds, or a text such as `3d`; or such by tool, "" for all others."""
MAX_TIMEOUT = 366 * 86_400.0
"""Seconds that a question may stay open at most, where it says for how long."""

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(?:\s*\d+(?:\.\d+)?\s*[smhdw])+\s*", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)
_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT})
_MAY_BE_LEFT_OUT: tuple[tuple[str, JSON | tuple[()]], ...] = (("timeout", None), ("why", ()), ("answer", ()))
"""Of an approval: what is no part of its digest where it says nothing."""
_KNOWN = ("prompt", "options", "schema", "timeout", "default")


class Question(NamedTuple):
    """What a step asks.

    `options` are the only answers, where there are any; `schema` is the JSON schema of an answer.
    After `timeout` seconds (None: never) the answer is `default`, if `has_default`, or the step
    has failed.
    """

    prompt: str
    options: tuple[JSON, ...] = ()
    schema: Mapping[str, JSON] | None = None
    timeout: float | None = None
    default: JSON = None
    has_default: bool = False
    digest: str = ""


class Approval(NamedTuple):
    """A call that is made only after a yes: exactly this one.

    `inputs` are those of a model or agent operation, `plan` is the hash of the plan that makes
    the call, `labels` what is known of where its arguments come from: of each that is not plain its label
    and the steps it was made by. `why` are the reasons for which the policy asks. After `timeout` seconds
    (None: never) it is denied. Where `answer` has one, the call was made, and the yes is to what it gave.
    """

    tool: str
    args: Mapping[str, JSON]
    inputs: tuple[JSON, ...]
    plan: str
    labels: Mapping[str, JSON]
    digest: str = ""
    timeout: float | None = None
    why: tuple[str, ...] = ()
    answer: tuple[JSON, ...] = ()


Asked: TypeAlias = "Question | Approval"


class Asking:
    """What a machine has asked and nobody has answered yet; `rules` name the calls that need a yes.

    `timeouts` say by tool for how many seconds there is time for it; the name "" stands for all others.
    """

    __slots__ = ("_counts", "_open", "_plan", "_rules", "_timeouts", "pepper")

    def __init__(self, rules: Iterable[str] = (), timeouts: Mapping[str, float] | None = None) -> None:
        self._rules = tuple(rules)
        self._timeouts = dict(timeouts or {})
        self._open: dict[str, tuple[Attempt, Asked]] = {}
        self._counts: dict[str, int] = {}
        self._plan: tuple[Program, str] | None = None
        self.pepper = ""
        """What digests are made with besides, so that nobody can guess secret arguments by them."""

    def gated(self, program: Program) -> frozenset[int]:
        """The numbers of the steps whose calls need a yes."""
        if not self._rules:
            return frozenset()
        calls = (code for code in program.steps if code.kind in _CALLS)
        inner = (tool for code in program.steps if code.loop is not None for tool in code.loop.tools.values())
        return frozenset(code.number for code in (*calls, *inner) if covers(self._rules, code.tool))

    def ask(self, attempt: Attempt, program: Program, admitted: Admitted | None = None) -> Asked | None:
        """What to ask for this attempt; None for an `@ASK_HUMAN` that cannot be asked as it stands.

        `admitted` is what a policy says of the call.
        """
        asked, key = self._asked(attempt, program, admitted), attempt.key
        if asked is None:
            return None
        count = self._counts[key] = self._counts.get(key, 0) + 1
        asked = asked._replace(digest=_digest(key, count, self._hash_of(program), asked, self.pepper))
        self._open[key] = attempt, asked
        return asked

    def _asked(self, attempt: Attempt, program: Program, admitted: Admitted | None) -> Asked | None:
        code = attempt.code
        if code.kind is not Kind.ASK:
            plan, timeout = self._hash_of(program), timeout_of(self._timeouts, code.tool)
            call = code.tool, attempt.args, tuple(attempt.inputs), plan
            if attempt.held is not None:
                value, why = attempt.held
                return Approval(*call, {}, timeout=timeout, why=(why,), answer=(value,))
            if admitted is None:
                return Approval(*call, {}, timeout=timeout)
            return Approval(*call, dict(admitted.shown), timeout=timeout, why=admitted.reasons)
        read = read_question(attempt.args)
        return None if isinstance(read, str) else read

    def close(self, key: str, digest: str) -> tuple[Attempt, Asked] | None:
        """What was asked under this key, which is open no more; None unless exactly that is open."""
        found = self._open.get(key)
        if found is None or found[1].digest != digest:
            return None
        return self._open.pop(key)

    def withdraw(self, key: str) -> None:
        """What is asked under this key is asked no more."""
        self._open.pop(key, None)

    def adopt(self, key: str, digest: str) -> None:
        """What is asked under this key has this digest: for who looks at a run, and sees no secrets."""
        found = self._open.get(key)
        if found is not None:
            self._open[key] = found[0], found[1]._replace(digest=digest)

    def is_open(self, key: str) -> bool:
        """Whether something is asked under this key."""
        return key in self._open

    def keys(self) -> Collection[str]:
        """The keys of all that is open."""
        return self._open.keys()

    def open(self) -> Collection[tuple[Attempt, Asked]]:
        """All that is open, in the order of asking, with the attempts that it is about."""
        return self._open.values()

    def counts(self, keys: Iterable[str]) -> dict[str, int]:
        """How often each of these keys has been asked about, where it has been."""
        return {key: self._counts[key] for key in keys if key in self._counts}

    def put(
        self,
        open_: Iterable[tuple[Attempt, str]],
        counts: Mapping[str, int],
        program: Program,
        admitted: Mapping[str, Admitted],
    ) -> None:
        """Be where attempts wait with these digests; raises ValueError for one that asks nothing.

        `admitted` is what a policy says of calls, by key.
        """
        self._counts = dict(counts)
        for attempt, digest in open_:
            asked = self._asked(attempt, program, admitted.get(attempt.key))
            if asked is None:
                raise ValueError(f"{attempt.key} asks nothing")
            self._open[attempt.key] = attempt, asked._replace(digest=digest)

    def take(self, other: Asking) -> None:
        """Ask what another one asks, under one's own rules."""
        self._open, self._counts = other._open, other._counts

    def clear(self) -> None:
        """Ask nothing any more."""
        self._open.clear()

    def _hash_of(self, program: Program) -> str:
        if self._plan is None or self._plan[0] is not program:
            self._plan = program, plan_hash(program.plan)
        return self._plan[1]


def covers(rules: Iterable[str], tool: str) -> bool:
    """Whether one of the named tools is this one, under whichever of its names.

    A name without its server stands for the tool on every server, and a tool that is called
    without its server may be that of any.

    >>> covers(["SEND"], "MAIL__SEND"), covers(["MAIL__SEND"], "SEND"), covers(["MAIL__SEND"], "X__SEND")
    (True, True, False)
    >>> covers(["EXEC_CODE"], "SHELL_EXEC")
    True
    """
    return any(_is_same(rule, tool) for rule in rules)


def timeout_of(timeouts: Mapping[str, float], tool: str) -> float | None:
    """The seconds that there are for a yes to a call of this tool, the shortest that fits; None: for ever.

    >>> timeout_of({"": 60.0, "SEND": 5.0}, "MAIL__SEND"), timeout_of({"": 60.0}, "PAY")
    (5.0, 60.0)
    """
    named = [seconds for rule, seconds in timeouts.items() if rule and _is_same(rule, tool)]
    return min(named) if named else timeouts.get("")


def _is_same(rule: str, tool: str) -> bool:
    if executor_name(rule) == executor_name(tool):
        return True
    if ("__" in rule) == ("__" in tool):
        return False
    return rule.endswith(f"__{tool}") or tool.endswith(f"__{rule}")


def _digest(key: str, count: int, plan: str, asked: Asked, pepper: str) -> str:
    """A hash of all that is shown to who answers, and of which asking of this key it is."""
    told = asked._asdict()
    for name, default in _MAY_BE_LEFT_OUT if isinstance(asked, Approval) else ():
        if told[name] == default:
            del told[name]
    shown = {"key": key, "count": count, "plan": plan, "asked": told}
    shown |= {"pepper": pepper} if pepper else {}
    try:
        text = json.dumps(shown, sort_keys=True, separators=(",", ":"), default=repr)
    except (ValueError, TypeError, RecursionError):
        text = repr(shown)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_question(args: Mapping[str, Any]) -> Question | str:
    """The question that the arguments of `@ASK_HUMAN` make, or what is wrong with them.

    >>> read_question({"prompt": "Go on?", "timeout": "1d 12h"}).timeout
    129600.0
    >>> read_question({"prompt": "Go on?", "timeout": "soon"})
    'the timeout must be seconds or a text such as 45m, 12h or 3d'
    """
    unknown = next((name for name in args if name not in _KNOWN), None)
    if unknown is not None:
        return f"@{ASK} has no argument {unknown}; it takes {', '.join(_KNOWN)}"
    if args.get("prompt") is None:
        return "the prompt is missing"
    for name in ("options", "schema", "timeout"):
        wrong = None if args.get(name) is None else wrong_argument(name, args[name])
        if wrong is not None:
            return wrong
    options, schema = args.get("options"), args.get("schema")
    if options is not None and schema is not None:
        return "options and schema are given; an answer can follow only one of them"
    prompt = args["prompt"]
    return Question(
        prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False),
        () if options is None else tuple(options),
        schema,
        None if args.get("timeout") is None else read_duration(args["timeout"]),
        args.get("default"),
        "default" in args,
    )


def wrong_argument(name: str, value: Any) -> str | None:
    """What is wrong with an argument of `@ASK_HUMAN`, None if nothing is."""
    if name == "options" and (not isinstance(value, list) or not value):
        return "the options must be a list of answers with at least one in it"
    if name == "schema" and not isinstance(value, dict):
        return "the schema must be a JSON schema, an object"
    if name == "timeout":
        seconds = read_duration(value)
        if seconds is None:
            return "the timeout must be seconds or a text such as 45m, 12h or 3d"
        if not 0 < seconds <= MAX_TIMEOUT:
            return "the timeout must be longer than nothing and at most a year"
    return None


def read_duration(value: Any) -> float | None:
    """The seconds that a number or a text such as `90s`, `12h` or `1d 6h` says; None for anything else.

    >>> read_duration("1d 6h"), read_duration(90), read_duration("90"), read_duration("later")
    (108000.0, 90.0, 90.0, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e15 else None
    if not isinstance(value, str) or len(value) > 60:
        return None
    text = value.strip().lower()
    if text.isascii() and text.isdigit():
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def approval_timeouts(given: ApprovalTimeout | None) -> dict[str, float]:
    """The seconds that there are for a yes, by tool ("" for all others).

    Raises ValueError for what is no time, is nothing, or is longer than a year.

    >>> approval_timeouts("3d"), approval_timeouts({"send mail": 60, "": "1h"})
    ({'': 259200.0}, {'SEND_MAIL': 60.0, '': 3600.0})
    """
    if given is None:
        return {}
    by_tool: Mapping[str, float | str] = given if isinstance(given, Mapping) else {"": given}
    found: dict[str, float] = {}
    for tool, told in by_tool.items():
        seconds = read_duration(told)
        if seconds is None or not 0 < seconds <= MAX_TIMEOUT:
            wanted = 'seconds or a text such as "45m", "12h" or "3d", at most a year'
            raise ValueError(f"the time for an approval must be {wanted}, and not {told!r}")
        found[canonical_tool_name(tool) if tool else ""] = seconds
    return found


def in_words(seconds: float) -> str:
    """A duration as a person says it.

    >>> in_words(129600), in_words(90), in_words(0.5)
    ('1d 12h', '1m 30s', '0.5s')
    """
    if seconds < 1 or seconds != int(seconds):
        return f"{seconds:g}s"
    parts: list[str] = []
    rest = int(seconds)
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, int(_SECONDS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts)


def headline(asked: Asked) -> str:
    """What is asked, in one text."""
    if isinstance(asked, Question):
        return asked.prompt
    if asked.answer:
        return f"may the answer of @{asked.tool} be used? {'; '.join(asked.why)}"
    return f"may @{asked.tool} be called?"


def said_by(what: str, by: str, note: str) -> str:
    """An answer in words.

    >>> said_by("denied", "Ada", "not on Friday"), said_by("denied", "", "")
    ('denied by Ada: not on Friday', 'denied')
    """
    return what + (f" by {by}" if by else "") + (f": {note}" if note else "")


def unanswered(asked: Asked) -> str:
    """The failure of a question whose time is over, or of a call that nobody has approved."""
    within = "in time" if asked.timeout is None else f"within {in_words(asked.timeout)}"
    if isinstance(asked, Approval):
        what = "answer" if asked.answer else "call"
        return f"denied: nobody approved the {what} of @{asked.tool} {within}"
    return f"nobody answered {within}"


def asked_to_json(asked: Asked) -> dict[str, JSON]:
    """What is asked, as JSON data for a journal and for programs."""
    match asked:
        case Question():
            data: dict[str, Any] = {"kind": "question", "prompt": asked.prompt, "digest": asked.digest}
            data |= {"options": list(asked.options)} if asked.options else {}
            data |= {} if asked.schema is None else {"schema": dict(asked.schema)}
            data |= {} if asked.timeout is None else {"timeout": asked.timeout}
            return data | ({"default": asked.default} if asked.has_default else {})
        case Approval():
            data = {"kind": "approval", "tool": asked.tool, "args": dict(asked.args), "digest": asked.digest}
            data |= {"inputs": list(asked.inputs)} if asked.inputs else {}
            data |= {} if asked.timeout is None else {"timeout": asked.timeout}
            data |= {"why": list(asked.why)} if asked.why else {}
            data |= {"answer": asked.answer[0]} if asked.answer else {}
            return data | {"plan": asked.plan, "labels": dict(asked.labels)}


def asked_from_json(data: Mapping[str, Any]) -> Asked:
    """What JSON data says was asked; raises KeyError or TypeError for other data."""
    if data["kind"] == "approval":
        inputs = tuple(cast("list[JSON]", data.get("inputs", [])))
        bound = data["plan"], data["labels"], data["digest"], data.get("timeout"), tuple(data.get("why", ()))
        answer = (data["answer"],) if "answer" in data else ()
        return Approval(data["tool"], data["args"], inputs, *bound, answer)
    return Question(
        data["prompt"],
        tuple(cast("list[JSON]", data.get("options", []))),
        data.get("schema"),
        data.get("timeout"),
        data.get("default"),
        "default" in data,
        data["digest"],
    )
