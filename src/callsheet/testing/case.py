"""Cases: tests of a plan in a file beside it, `triage.test.toml`, or recorded by `callsheet record`.

In: the path of such a file. Out: its cases with the plan, fakes, replies and what is expected; or
CallsheetError (TST001) that names the place. The file is read strictly: a misspelt key is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span, did_you_mean
from callsheet.ir import JSON
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ir.strict_toml import TomlError, read_toml
from callsheet.machine import Outcome
from callsheet.runtime.answers import Answer
from callsheet.testing.differences import ExpectedCall, Order
from callsheet.testing.fakes import Fake
from callsheet.testing.rehearsal import START, Reply

if TYPE_CHECKING:
    from callsheet.policy.model import Policy

ENDING = ".test.toml"
"""How the name of a file of cases ends."""
CASSETTE = "callsheet.cassette"
SUFFIXES = (".ltp", ".micro", ".py", ".json", ".yaml", ".yml")


class Unsaid(Enum):
    """Stands for an expectation that a case does not have; null is a value."""

    UNSAID = "unsaid"


UNSAID = Unsaid.UNSAID


class Rules(NamedTuple):
    """The policy that a recorded run was under, and the tools each call of which a person had to approve."""

    policy: Policy | None
    approve: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test of a plan: what it is given, and what it is expected to do.

    What is None or unsaid is not compared. `message` is a part of the answer as text, `error` one of the
    error. `rules` are those of the run that it was made of, for a file that names none. `order` says whether
    `calls` are all calls in this order (`exact`), all in any order (`any`), or some of them in this order
    (`some`). `line` is where the case begins in its file.
    """

    name: str
    line: int = 1
    now: datetime = START
    """The time at which the run begins."""
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    secrets: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    fakes: tuple[Fake, ...] = ()
    replies: tuple[Reply, ...] = ()
    rules: Rules | None = None
    outcome: str = "done"
    answer: JSON | Unsaid = UNSAID
    message: str | None = None
    error: str | None = None
    calls: tuple[ExpectedCall, ...] | None = None
    order: Order = "exact"
    variables: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    failed_steps: tuple[str, ...] | None = None
    seconds: float | None = None
    """The most virtual time that the run may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """A file of cases. `tools` are Python files whose functions really run where no fake answers."""

    path: Path
    plan: Path
    source: Source
    cases: tuple[Case, ...]
    policy: str | None = None
    tools: tuple[Path, ...] = ()
    approve: tuple[str, ...] = ()
    cannot_happen: tuple[str, ...] = ()
    """Points of the plan, in the words of the report on coverage, that no run can come by."""


_OUTCOMES = tuple(str(one) for one in Outcome if one is not Outcome.RUNNING)


def plan_beside(path: Path) -> Path | None:
    """The plan that a file of cases stands beside: `triage.ltp` for `triage.test.toml`; None if none is."""
    stem = path.name.removesuffix(ENDING)
    return next((one for s in SUFFIXES if (one := path.with_name(stem + s)).is_file()), None)


def read_cases(path: Path) -> CaseFile:
    """The cases in a file; raises CallsheetError (TST001) if it cannot be used."""
    if path.suffix in SUFFIXES:
        raise CallsheetError.single(
            "TST001",
            f"{path} is no file of cases",
            help=f"its name ends in {ENDING}; the cases of a plan stand beside it, in {path.stem}{ENDING}",
        )
    try:
        source = Source(str(path), path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CallsheetError.single("TST001", f"the cases {path} cannot be read: {reason}") from error
    try:
        table = read_toml(source.text)
    except TomlError as error:
        span = Span(error.offset, error.offset + 1)
        wrong = Diagnostic("TST001", Severity.ERROR, f"this is not TOML: {error}", span)
        raise CallsheetError([wrong], source) from error
    return _Reader(path, source).file(table)


_FILE_KEYS = ("plan", "policy", "tools", "approve", "cannot_happen", "now", "cassette", "fakes", "cases")
_CASE_KEYS = (
    "name", "now", "inputs", "secrets", "fakes", "replies", "cassette", "outcome", "answer", "message",
    "error", "calls", "order", "variables", "failed_steps", "seconds",
)  # fmt: skip
_FAKE_KEYS = ("tool", "args", "answer", "fails", "kind", "lost", "seconds", "times")
_REPLY_KEYS = ("to", "answer", "approve", "nobody", "by", "note")
_CALL_KEYS = ("tool", "args")
_RECORDED_KEYS = ("tool", "args", "answer", "error", "kind")
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*cases[ \t]*\]\]", re.MULTILINE)


class _Reader:
    """Reads one file; `where` names the place for errors, `span` is that of the case under way."""

    def __init__(self, path: Path, source: Source) -> None:
        self._path, self._source = path, source
        self._span: Span | None = None
        self._headers = [Span(*found.span()) for found in _HEADER.finditer(source.text)]

    def _wrong(self, message: str, help_: str | None = None) -> CallsheetError:
        span = self._span or Span(0, 0)
        return CallsheetError([Diagnostic("TST001", Severity.ERROR, message, span, help=help_)], self._source)

    def file(self, table: dict[str, Any]) -> CaseFile:
        """The whole file."""
        self._known("the file", table, _FILE_KEYS)
        recorded, rules = self._cassette("the file", table)
        shared = (*self._fakes("the file", table), *recorded)
        given = table.get("cases", [])
        if not isinstance(given, list) or not given:
            raise self._wrong("there are no cases", "write each as [[cases]] with a name")
        now = self._now(table, START)
        numbered = enumerate(cast("list[Any]", given))
        cases = [self._case(number, one, shared, rules, now) for number, one in numbered]
        self._span = None
        names = [case.name for case in cases]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise self._wrong(f"two cases are called {twice!r}")
        return CaseFile(
            path=self._path,
            plan=self._plan(table),
            source=self._source,
            cases=tuple(cases),
            policy=self._policy(table),
            tools=tuple(self._path.parent / name for name in self._texts("the file", table, "tools")),
            approve=self._texts("the file", table, "approve"),
            cannot_happen=self._texts("the file", table, "cannot_happen"),
        )

    def _plan(self, table: dict[str, Any]) -> Path:
        named = self._text("the file", table, "plan")
        plan = plan_beside(self._path) if named is None else self._path.parent / named
        if plan is None:
            stem = self._path.name.removesuffix(ENDING)
            raise self._wrong(f"no plan {stem}.ltp or {stem}.py stands beside it", 'name it: plan = "FILE"')
        if not plan.is_file():
            raise self._wrong(f"the plan {named} does not exist")
        return plan

    def _policy(self, table: dict[str, Any]) -> str | None:
        policy = self._text("the file", table, "policy")
        is_file = policy is not None and (policy.endswith(".toml") or "/" in policy) and ":" not in policy
        return str(self._path.parent / policy) if is_file and policy is not None else policy

    def _now(self, table: dict[str, Any], default: datetime) -> datetime:
        now = table.get("now", default)
        if isinstance(now, str):
            try:
                now = datetime.fromisoformat(now)
            except ValueError:
                now = None
        if not isinstance(now, datetime):
            raise self._wrong("now must be a time such as 2026-03-01T09:00:00Z")
        return now if now.tzinfo is not None else now.replace(tzinfo=UTC)

    def _case(
        self, number: int, given: object, shared: tuple[Fake, ...], rules: Rules | None, now: datetime
    ) -> Case:
        self._span = self._headers[number] if number < len(self._headers) else None
        table = self._table(f"case {number + 1}", given)
        name = self._text(f"case {number + 1}", table, "name")
        if not name:
            raise self._wrong(f"case {number + 1} has no name", 'name = "what must be true"')
        where = f"the case {name!r}"
        self._known(where, table, _CASE_KEYS)
        order = self._text(where, table, "order") or "exact"
        if order not in ("exact", "any", "some"):
            raise self._wrong(f"{where}: order must be exact, any or some")
        outcome = self._text(where, table, "outcome") or "done"
        if outcome not in _OUTCOMES:
            raise self._wrong(f"{where}: outcome must be one of {', '.join(_OUTCOMES)}")
        calls = [self._call(where, one) for one in self._tables(where, table, "calls")]
        recorded, own_rules = self._cassette(where, table)
        return Case(
            name=name,
            line=self._source.position(0 if self._span is None else self._span.start).line,
            now=self._now(table, now),
            inputs=self._values(where, table, "inputs"),
            secrets=self._values(where, table, "secrets"),
            fakes=(*self._fakes(where, table), *recorded, *shared),
            replies=tuple(self._reply(where, one) for one in self._tables(where, table, "replies")),
            rules=own_rules or rules,
            outcome=outcome,
            answer=self._json(where, table["answer"]) if "answer" in table else UNSAID,
            message=self._text(where, table, "message"),
            error=self._text(where, table, "error"),
            calls=tuple(calls) if "calls" in table else None,
            order=order,
            variables=self._values(where, table, "variables"),
            failed_steps=self._texts(where, table, "failed_steps") if "failed_steps" in table else None,
            seconds=self._number(where, table, "seconds"),
        )

    def _fakes(self, where: str, table: dict[str, Any]) -> tuple[Fake, ...]:
        return tuple(self._fake(where, one) for one in self._tables(where, table, "fakes"))

    def _fake(self, where: str, table: dict[str, Any]) -> Fake:
        self._known(f"a fake of {where}", table, _FAKE_KEYS)
        tool = self._text(where, table, "tool")
        if not tool:
            raise self._wrong(f"a fake of {where} does not name its tool")
        where = f"the fake of {tool} in {where}"
        if "answer" in table and ("fails" in table or "kind" in table or "lost" in table):
            raise self._wrong(f"{where} has an answer and a failure")
        try:
            return Fake(
                tool=tool,
                args=self._values(where, table, "args"),
                answer=self._json(where, table.get("answer")),
                fails=self._text(where, table, "fails") or "",
                kind=cast("Any", self._text(where, table, "kind") or ""),
                lost=self._flag(where, table, "lost"),
                seconds=self._number(where, table, "seconds") or 0.0,
                times=cast("int | None", self._of(where, table, "times", int, "a whole number")),
            )
        except ValueError as error:
            raise self._wrong(f"{where}: {error}") from error

    def _reply(self, where: str, table: dict[str, Any]) -> Reply:
        self._known(f"a reply of {where}", table, _REPLY_KEYS)
        to = self._text(where, table, "to")
        if not to:
            raise self._wrong(
                f"a reply of {where} does not say what it is to", 'to = "a part of the question"'
            )
        said = [key for key in ("answer", "approve", "nobody") if key in table]
        if len(said) != 1:
            raise self._wrong(f"the reply to {to!r} must have one of answer, approve and nobody = true")
        by, note = self._text(where, table, "by") or "", self._text(where, table, "note") or ""
        match said[0]:
            case "answer":
                return Reply(to, Answer.of(self._json(where, table["answer"]), by=by, note=note))
            case "approve":
                yes = self._flag(where, table, "approve")
                return Reply(to, Answer.approve(by=by, note=note) if yes else Answer.deny(by=by, note=note))
            case _:
                if not self._flag(where, table, "nobody"):
                    raise self._wrong(f"the reply to {to!r}: nobody can only be true")
                return Reply(to, None)

    def _call(self, where: str, table: dict[str, Any]) -> ExpectedCall:
        self._known(f"a call of {where}", table, _CALL_KEYS)
        tool = self._text(where, table, "tool")
        if not tool:
            raise self._wrong(f"a call of {where} does not name its tool")
        return ExpectedCall(tool, self._values(where, table, "args") if "args" in table else None)

    def _cassette(self, where: str, table: dict[str, Any]) -> tuple[tuple[Fake, ...], Rules | None]:
        """The recorded answers, and the rules that the run was under; None if it was under none."""
        named = self._text(where, table, "cassette")
        if named is None:
            return (), None
        where = f"{where}: the cassette {named}"
        try:
            data: Any = read_json((self._path.parent / named).read_text(encoding="utf-8"))
        except OSError as error:
            raise self._wrong(f"{where} cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise self._wrong(f"{where} cannot be read: it is not UTF-8 text") from error
        except NotJson as error:
            raise self._wrong(f"{where} is not JSON: {error}") from error
        if not isinstance(data, dict) or cast("dict[str, Any]", data).get("kind") != CASSETTE:
            raise self._wrong(f"{where} is no cassette of callsheet", "`callsheet record RUN` makes one")
        recorded = cast("dict[str, Any]", data)
        if recorded.get("version") != 1:
            raise self._wrong(f"{where} has the version {recorded.get('version')!r}, which is not known here")
        calls = enumerate(self._tables(where, recorded, "calls"), 1)
        fakes = tuple(self._recorded(f"{where}, call {number}", one) for number, one in calls)
        return fakes, self._rules(where, recorded)

    def _rules(self, where: str, recorded: dict[str, Any]) -> Rules | None:
        approve = self._texts(where, recorded, "approve")
        if "policy" not in recorded:
            return Rules(None, approve) if approve else None
        from callsheet.policy.canon import policy_from_json  # noqa: PLC0415 - only for runs under one

        try:
            return Rules(policy_from_json(recorded["policy"]), approve)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise self._wrong(f"{where} has a policy that cannot be read: {error}") from error

    def _recorded(self, where: str, call: dict[str, Any]) -> Fake:
        """The fake that answers one recorded call, once."""
        self._known(where, call, _RECORDED_KEYS)
        tool = self._text(where, call, "tool")
        if not tool:
            raise self._wrong(f"{where} does not name its tool")
        try:
            return Fake(
                tool=tool,
                args=self._table(f"{where}: args", call.get("args", {})),
                answer=call.get("answer"),
                fails=self._text(where, call, "error") or "",
                kind=cast("Any", self._text(where, call, "kind") or ""),
                times=1,
            )
        except ValueError as error:
            raise self._wrong(f"{where}: {error}") from error

    # ------------------------------------------------------------ values

    def _known(self, where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                near = did_you_mean(key, keys)
                help_ = f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}"
                raise self._wrong(f"{where} has an unknown key {key!r}", help_)

    def _of(self, where: str, table: dict[str, Any], key: str, kind: type, words: str) -> object:
        value = table.get(key)
        if value is not None and (
            not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool)
        ):
            raise self._wrong(f"{where}: {key} must be {words}")
        return value

    def _text(self, where: str, table: dict[str, Any], key: str) -> str | None:
        return cast("str | None", self._of(where, table, key, str, "a text"))

    def _flag(self, where: str, table: dict[str, Any], key: str) -> bool:
        return bool(self._of(where, table, key, bool, "true or false"))

    def _number(self, where: str, table: dict[str, Any], key: str) -> float | None:
        value = table.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise self._wrong(f"{where}: {key} must be a number")
        return None if value is None else float(value)

    def _texts(self, where: str, table: dict[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
            raise self._wrong(f"{where}: {key} must be a list of texts")
        return tuple(cast("list[str]", value))

    def _table(self, where: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(f"{where} must be a table")
        return cast("dict[str, Any]", value)

    def _tables(self, where: str, table: dict[str, Any], key: str) -> list[dict[str, Any]]:
        value = table.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(f"{where}: {key} must be a list of tables")
        return [self._table(f"each of {key} in {where}", one) for one in cast("list[Any]", value)]

    def _values(self, where: str, table: dict[str, Any], key: str) -> dict[str, JSON]:
        given = self._table(f"{key} of {where}", table.get(key, {}))
        return {name: self._json(where, value) for name, value in given.items()}

    def _json(self, where: str, value: object) -> JSON:
        """A value of TOML as JSON; a table with the one key `json` holds JSON text, which can say null."""
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            if table.keys() == {"json"} and isinstance(table["json"], str):
                try:
                    return read_json(table["json"])
                except NotJson as error:
                    raise self._wrong(f"{where}: json = … is not JSON: {error}") from error
            return {name: self._json(where, one) for name, one in table.items()}
        if isinstance(value, list):
            return [self._json(where, one) for one in cast("list[Any]", value)]
        if isinstance(value, datetime | date | time):
            raise self._wrong(f"{where}: {value} is a time of TOML, which JSON has not", "write it as a text")
        if isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(f"{where}: {value} is a number of TOML, which JSON has not")
        return cast("JSON", value)
