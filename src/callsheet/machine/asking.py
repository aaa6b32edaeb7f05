"""The open questions and approvals of a run, and the digests that bind answers to them.

In: attempts of `@ASK_HUMAN`, and of calls that need an approval. Out: the question with a digest over all
that it shows. An answer counts once, and only with the digest of the open question: an approval for other
arguments, another item, an earlier attempt or another plan does not count.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, cast

from callsheet.ir import JSON, plan_hash
from callsheet.machine.frames import Attempt
from callsheet.machine.monitor.variable_labels import Admitted
from callsheet.machine.program import Kind, Program
from callsheet.machine.questions import (
    Approval,
    Asked,
    asked_to_json,
    needs_approval,
    read_question,
    timeout_of,
)

_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT})
_MAY_BE_LEFT_OUT: tuple[tuple[str, JSON | tuple[()]], ...] = (("timeout", None), ("why", ()), ("answer", ()))
"""Fields of an approval that are left out of its digest if they have their default."""
_BESIDE = ("due", "role")
"""What a journal records beside what is asked."""


class Asking:
    """The questions of a machine that are not answered yet; `rules` name tools and steps that need approval.

    `timeouts` give the seconds to wait for one, by tool; "" stands for all others.
    """

    __slots__ = ("_counts", "_open", "_plan", "_rules", "_timeouts", "pepper")

    def __init__(self, rules: Iterable[str] = (), timeouts: Mapping[str, float] | None = None) -> None:
        self._rules = tuple(rules)
        self._timeouts = dict(timeouts or {})
        self._open: dict[str, tuple[Attempt, Asked]] = {}
        self._counts: dict[str, int] = {}
        self._plan: tuple[Program, str] | None = None
        self.pepper = ""
        """A secret mixed into digests, so that secret arguments cannot be guessed from them."""

    def gated(self, program: Program) -> frozenset[int]:
        """The numbers of the steps, and of the tools of operations, whose calls need an approval."""
        if not self._rules:
            return frozenset()
        calls = (code for code in program.steps if code.kind in _CALLS)
        inner = (tool for code in program.steps if code.loop is not None for tool in code.loop.tools.values())
        return frozenset(
            code.number for code in (*calls, *inner) if needs_approval(self._rules, code.tool, code.id)
        )

    def ask(self, attempt: Attempt, program: Program, admitted: Admitted | None = None) -> Asked | None:
        """Open the question of an attempt; None for an `@ASK_HUMAN` with invalid arguments.

        `admitted` is the policy's judgement of the call.
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
        """Close the question with this key and give it; None unless it is open with this digest."""
        question = self._open.get(key)
        if question is None or question[1].digest != digest:
            return None
        return self._open.pop(key)

    def withdraw(self, key: str) -> None:
        """Drop the question with this key."""
        self._open.pop(key, None)

    def excuse(self, key: str, admitted: Admitted) -> Asked | None:
        """Remove an earlier policy's reasons from the approval with this key; None if it had none.

        It keeps its digest: the call is the same, so an answer to it still counts.
        """
        attempt, asked = self._open[key]
        if not isinstance(asked, Approval) or not asked.why:
            return None
        asked = asked._replace(labels=dict(admitted.shown), why=admitted.reasons)
        self._open[key] = attempt, asked
        return asked

    def adopt(self, key: str, digest: str) -> None:
        """Set the digest of a question to the recorded one, which cannot be computed without the secrets."""
        question = self._open.get(key)
        if question is not None:
            self._open[key] = question[0], question[1]._replace(digest=digest)

    def is_recorded_as(self, key: str, record: Mapping[str, Any]) -> bool:
        """Whether a journal's record of this open question differs at most in the wording of its reasons.

        Reasons are texts for people, which another version of callsheet may word otherwise. They are part
        of the digest, so the recorded digest has to be adopted for the recorded answers to count.
        """
        question = self._open.get(key)
        if question is None or not isinstance(question[1], Approval):
            return False
        asked = asked_to_json(question[1])
        recorded = {name: record[name] for name in record if name not in _BESIDE}
        counts = [len(cast("list[str]", each.pop("why", []))) for each in (asked, recorded)]
        return counts[0] == counts[1] and asked | {"digest": record.get("digest")} == recorded

    def differs(self, key: str, record: Mapping[str, Any]) -> bool:
        """Whether a journal's record of this open question shows something else, so that no answer counts."""
        question = self._open.get(key)
        return question is not None and question[1].digest != record.get("digest")

    def is_open(self, key: str) -> bool:
        """Whether a question with this key is open."""
        return key in self._open

    def keys(self) -> Collection[str]:
        """The keys of the open questions."""
        return self._open.keys()

    def open(self) -> Collection[tuple[Attempt, Asked]]:
        """The open questions with their attempts, in the order of asking."""
        return self._open.values()

    def counts(self, keys: Iterable[str]) -> dict[str, int]:
        """How often a question was opened for each of these keys, if at all."""
        return {key: self._counts[key] for key in keys if key in self._counts}

    def restore(
        self,
        open_: Iterable[tuple[Attempt, str]],
        counts: Mapping[str, int],
        program: Program,
        admitted: Mapping[str, Admitted],
    ) -> None:
        """Restore open questions from attempts and digests; `admitted` has the policy's judgements, by key.

        Raises ValueError for an attempt that asks nothing.
        """
        self._counts = dict(counts)
        for attempt, digest in open_:
            asked = self._asked(attempt, program, admitted.get(attempt.key))
            if asked is None:
                raise ValueError(f"{attempt.key} asks nothing")
            self._open[attempt.key] = attempt, asked._replace(digest=digest)

    def take_over(self, other: Asking) -> None:
        """Take over another's open questions, keeping the own rules."""
        self._open, self._counts = other._open, other._counts

    def clear(self) -> None:
        """Drop all open questions."""
        self._open.clear()

    def _hash_of(self, program: Program) -> str:
        if self._plan is None or self._plan[0] is not program:
            self._plan = program, plan_hash(program.plan)
        return self._plan[1]


def _digest(key: str, count: int, plan: str, asked: Asked, pepper: str) -> str:
    """A hash of all that the question shows, and of how often its key has been asked about."""
    data = asked._asdict()
    for name, default in _MAY_BE_LEFT_OUT if isinstance(asked, Approval) else ():
        if data[name] == default:
            del data[name]
    shown = {"key": key, "count": count, "plan": plan, "asked": data}
    shown |= {"pepper": pepper} if pepper else {}
    try:
        text = json.dumps(shown, sort_keys=True, separators=(",", ":"), default=repr)
    except (ValueError, TypeError, RecursionError):
        text = repr(shown)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
