"""Questions to people as data, `@ASK_HUMAN` and approvals of calls, and which calls need an approval.

When something is asked, and which answer counts, is decided in `asking`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted_names
from callsheet.ir import JSON, canonical_tool_name, executor_name
from callsheet.ir.operations import pattern_fault
from callsheet.lazy import NamedTuple
from callsheet.machine.values import to_json_text

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = lazy.pattern(r"(?:\s*\d+(?:\.\d+)?\s*[smhdw])+\s*", re.ASCII)
_PART = lazy.pattern(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)


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


ASK = "ASK_HUMAN"
"""The operation by which a step asks."""
MAX_TIMEOUT = 366 * 86_400.0
"""The longest timeout of a question, in seconds."""

_KNOWN = ("prompt", "options", "schema", "timeout", "default")


class Question(NamedTuple):
    """What a step asks.

    `options` are the only possible answers, if any are given; `schema` is the JSON schema of an answer. After
    `timeout` seconds (None: never) the answer is `default` if `has_default`, otherwise the step fails.
    """

    prompt: str
    options: tuple[JSON, ...] = ()
    schema: Mapping[str, JSON] | None = None
    timeout: float | None = None
    default: JSON = None
    has_default: bool = False
    digest: str = ""


class Approval(NamedTuple):
    """A call that is made only once a person has approved exactly this call.

    `inputs` are those of a model or agent operation, `plan` is the hash of the plan that makes the call.
    `labels` has, for each labelled argument, its label and the steps it was made by; `why` are the reasons of
    the policy. After `timeout` seconds (None: never) it is denied. If `answer` has a value, the call was made
    already and the approval is about this result.
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


def read_question(args: Mapping[str, Any]) -> Question | str:
    """The question from the arguments of `@ASK_HUMAN`, or what is wrong with them.

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
        to_json_text(prompt),
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
            return "the timeout must be more than 0 and at most a year"
    return None


def headline(asked: Asked) -> str:
    """What is asked, in one text."""
    if isinstance(asked, Question):
        return asked.prompt
    return approval_headline(f"@{asked.tool}", asked.answer, asked.why)


def approval_headline(tool: str, answer: Sequence[JSON], why: Sequence[str]) -> str:
    """What an approval asks: may this tool be called, or its `answer` be used if there is one.

    The tool is given as the plan names it: `@SEND`, or `send` in Python.
    """
    if answer:
        return f"may the answer of {tool} be used? {'; '.join(why)}"
    return f"may {tool} be called?"


def describe_answer(what: str, by: str, note: str) -> str:
    """An answer in words.

    >>> describe_answer("denied", "Ada", "not on Friday"), describe_answer("denied", "", "")
    ('denied by Ada: not on Friday', 'denied')
    """
    return what + (f" by {by}" if by else "") + (f": {note}" if note else "")


def unanswered(asked: Asked) -> str:
    """The error of a question whose time is over, or of a call that nobody has approved in time."""
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
    """The question or approval from JSON data; raises KeyError or TypeError if it is malformed."""
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


ApprovalTimeout: TypeAlias = "float | str | Mapping[str, float | str]"
"""How long a call waits for an approval: seconds or a text such as `3d`, or these by tool ("" for others)."""


def approval_rules(names: Iterable[str]) -> tuple[str, ...]:
    """The canonical names of tools and steps whose calls need approval, each once.

    Raises CallsheetError (RUN034) for a pattern or a blank name, which would silently cover nothing.
    """
    rules = tuple(names)
    for name in rules:
        fault = pattern_fault(name) if name.strip(" @") else f"{name!r} names no tool"
        if fault is not None:
            raise CallsheetError.single("RUN034", fault, help="`callsheet tools` lists them")
    return tuple(dict.fromkeys(map(canonical_tool_name, rules)))


def covers(rules: Iterable[str], tool: str) -> bool:
    """Whether one of the rules names this tool, under any of its names.

    A name without a server stands for the tool on every server, and a tool that is called without a server
    may be that of any server.

    >>> covers(["SEND"], "MAIL__SEND"), covers(["MAIL__SEND"], "SEND"), covers(["MAIL__SEND"], "X__SEND")
    (True, True, False)
    >>> covers(["EXEC_CODE"], "SHELL_EXEC")
    True
    """
    return any(_is_same(rule, tool) for rule in rules)


def needs_approval(rules: Collection[str], tool: str, step: str) -> bool:
    """Whether one of the rules names this tool, or the step that calls it, as canonical names.

    >>> needs_approval(["SEND"], "SEND", "S1"), needs_approval(["MAIN_SEND"], "POST", "main.send")
    (True, True)
    """
    return covers(rules, tool) or canonical_tool_name(step) in rules


def timeout_of(timeouts: Mapping[str, float], tool: str) -> float | None:
    """The seconds to wait for an approval of this tool's calls, the shortest that applies; None: for ever.

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


def approval_timeouts(given: ApprovalTimeout | None) -> dict[str, float]:
    """The seconds to wait for an approval, by tool ("" for all others).

    Raises ValueError for a time that is invalid, not positive, or longer than a year.

    >>> approval_timeouts("3d"), approval_timeouts({"send mail": 60, "": "1h"})
    ({'': 259200.0}, {'SEND_MAIL': 60.0, '': 3600.0})
    """
    if given is None:
        return {}
    by_tool: Mapping[str, float | str] = (
        wanted_names("approval_timeout", given) if isinstance(given, Mapping) else {"": given}
    )
    timeouts: dict[str, float] = {}
    for tool, limit in by_tool.items():
        fault = pattern_fault(tool)
        if fault is not None:
            raise ValueError(fault)
        seconds = read_duration(limit)
        if seconds is None or not 0 < seconds <= MAX_TIMEOUT:
            message = 'seconds or a text such as "45m", "12h" or "3d", at most a year'
            raise ValueError(f"the time for an approval must be {message}, and not {limit!r}")
        timeouts[canonical_tool_name(tool) if tool else ""] = seconds
    return timeouts
