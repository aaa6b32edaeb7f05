"""`Runtime.inbox`, `answer` and `adopt`: what people and other programs contribute to recorded runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from callsheet.api.arguments import RunInputs, id_of_run, values_of
from callsheet.api.branching import Branching
from callsheet.api.plan import PlanLike, as_plan
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.lazy import deferred
from callsheet.machine import Limits
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools import to_json
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.doubt import DoubtfulCall

if TYPE_CHECKING:
    from callsheet.runtime import inbox
else:
    inbox = deferred("callsheet.runtime.inbox")


def _answer_of(given: object) -> Answer:
    """The answer given; only a real bool is a yes or a no, so that the truthy text "no" is refused."""
    match given:
        case Answer():
            return given
        case bool():
            return Answer.approve() if given else Answer.deny()
        case _:
            kind = type(given).__name__
            raise CallsheetError.single(
                "RUN031",
                f"an answer is True, False or an Answer, not a {kind}",
                help="Answer.of(…) answers a question; Answer.approve() and Answer.deny() say yes and no",
            )


class Answering(Branching):
    """The part of `Runtime` that lists and answers the questions of runs."""

    async def inbox(self) -> list[PendingAsk]:
        """The unanswered questions of all runs in the journal, oldest first.

        Raises ValueError for a runtime without a journal.
        """
        self._require_journal()
        async with self._opened() as session:
            assert session.journal is not None
            return [ask for ask in inbox.inbox(session.journal) if not ask.is_answered]

    async def calls_in_doubt(self) -> dict[str, tuple[DoubtfulCall, ...]]:
        """The calls in doubt of all runs that no process executes, by the ids of the runs, oldest first.

        `decide` decides about one. Raises ValueError for a runtime without a journal.
        """
        self._require_journal()
        async with self._opened() as session:
            assert session.journal is not None
            return dict(inbox.calls_in_doubt(session.journal))

    async def answer(
        self,
        run_id: str,
        key: str | None = None,
        answer: Answer | bool = True,
        *,
        digest: str | None = None,
        msg_id: str | None = None,
    ) -> PendingAsk:
        """Answer a question of a run and return that question; `resume` continues the run.

        `run_id` is an id, a prefix of one, or `last`. `key` is the question's key or its step; it may be
        left out if the run asks only one question. `answer` is True or False for a yes or a no, or an
        `Answer`. With `digest`, that of the `PendingAsk` that was shown, the answer counts only if the
        question is still the same. `msg_id` is the sender's id for the answer: a second answer with that
        id is refused. Raises CallsheetError: RUN030 if no such question is pending, RUN031 for an answer
        that does not fit; ValueError for a runtime without a journal.
        """
        self._require_journal()
        given_answer = _answer_of(answer)
        async with self._opened() as session:
            assert session.journal is not None
            name = session.find(run_id)
            return inbox.answer_run(session.journal, name, given_answer, key, digest=digest, msg_id=msg_id)

    async def answer_ahead(self, run_id: str, key: str, answer: Answer, *, msg_id: str | None = None) -> None:
        """Answer a question before the run asks it under this key; calls cannot be approved this way.

        The answer is used when the question is asked, if it fits. Raises CallsheetError (RUN030) for a run
        that has ended.
        """
        self._require_journal()
        given_answer = _answer_of(answer)
        async with self._opened() as session:
            assert session.journal is not None
            inbox.answer_ahead(session.journal, session.find(run_id), key, given_answer, msg_id)

    def inbox_sync(self) -> list[PendingAsk]:
        """Like `inbox`, for programs without an event loop."""
        return self._run_sync(self.inbox(), "inbox")

    def calls_in_doubt_sync(self) -> dict[str, tuple[DoubtfulCall, ...]]:
        """Like `calls_in_doubt`, for programs without an event loop."""
        return self._run_sync(self.calls_in_doubt(), "calls_in_doubt")

    def answer_sync(
        self,
        run_id: str,
        key: str | None = None,
        answer: Answer | bool = True,
        *,
        digest: str | None = None,
        msg_id: str | None = None,
    ) -> PendingAsk:
        """Like `answer`, for programs without an event loop."""
        return self._run_sync(self.answer(run_id, key, answer, digest=digest, msg_id=msg_id), "answer")


class Adopting(Answering):
    """The part of `Runtime` that takes over runs from other programs."""

    async def adopt(
        self,
        plan: PlanLike,
        done: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
    ) -> str:
        """Record a run some of whose steps were done elsewhere, and return its id; `resume` continues it.

        `plan` is a dependency plan; `done` maps the id of each finished step to its result. Those steps are
        not run again and do not count against the limits. Nothing is run here. Raises PlanError as `run`
        does; CallsheetError (PLN028) for a step that does not exist, that depends on an unfinished step, or
        that is a loop or not a call of a tool or model; ValueError for a runtime without a journal.
        """
        self._require_journal()
        values = values_of(inputs)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        wanted("done", done, Mapping, "a dict of results by step")
        outcomes = {str(step): _outcome(step, value) for step, value in done.items()}
        async with self._opened() as session:
            await session.adopt(read, RunInputs(values), outcomes, name, limits)
        return name


def _outcome(step: str, value: Any) -> Any:
    try:
        return to_json(value)
    except ToolFailed as error:
        raise CallsheetError.single(
            "PLN028", f"the result of step {step} cannot be used: {error}", help="give JSON data"
        ) from error
