"""Asking people: what a run has asked, and what an answer is bound to.

In: attempts of `@ASK_HUMAN` and of calls that the operator wants to be asked about. Out: the question
with a digest over all that it shows. An answer counts once, and only with the digest of the
question that is open: an approval of other arguments, of another item, of an earlier attempt
or of another plan is none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256

from callsheet.ir import JSON, plan_hash
from callsheet.machine.approvals import covers, timeout_of
from callsheet.machine.frames import Attempt
from callsheet.machine.monitor.admitted import Admitted
from callsheet.machine.program import Kind, Program
from callsheet.machine.questions import Approval, Asked, read_question

_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT})
_MAY_BE_LEFT_OUT: tuple[tuple[str, JSON | tuple[()]], ...] = (("timeout", None), ("why", ()), ("answer", ()))
"""Of an approval: what is no part of its digest where it says nothing."""


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

    def excuse(self, key: str, admitted: Admitted) -> Asked | None:
        """What is asked under this key, without the reasons of an earlier policy; None where it had none.

        It keeps its digest: the call is the same, so an answer to it counts.
        """
        attempt, asked = self._open[key]
        if not isinstance(asked, Approval) or not asked.why:
            return None
        asked = asked._replace(labels=dict(admitted.shown), why=admitted.reasons)
        self._open[key] = attempt, asked
        return asked

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
