"""`Runtime.inbox` and `Runtime.answer`: list and answer the questions that runs ask people.

In: the id of a run, an answer. Out: the pending questions, or the one that was answered. The run continues
when it is resumed.
"""

from __future__ import annotations

from callsheet.api.branching import Branching
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.runtime.inbox import answer_ahead, answer_run, calls_in_doubt, inbox


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
            return [ask for ask in inbox(session.journal) if not ask.is_answered]

    async def calls_in_doubt(self) -> dict[str, tuple[DoubtfulCall, ...]]:
        """The calls in doubt of all runs that no process executes, by the ids of the runs, oldest first.

        `decide` decides about one. Raises ValueError for a runtime without a journal.
        """
        self._require_journal()
        async with self._opened() as session:
            assert session.journal is not None
            return dict(calls_in_doubt(session.journal))

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
            return answer_run(session.journal, name, given_answer, key, digest=digest, msg_id=msg_id)

    async def answer_ahead(self, run_id: str, key: str, answer: Answer, *, msg_id: str | None = None) -> None:
        """Answer a question before the run asks it under this key; calls cannot be approved this way.

        The answer is used when the question is asked, if it fits. Raises CallsheetError (RUN030) for a run
        that has ended.
        """
        self._require_journal()
        given_answer = _answer_of(answer)
        async with self._opened() as session:
            assert session.journal is not None
            answer_ahead(session.journal, session.find(run_id), key, given_answer, msg_id)

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
