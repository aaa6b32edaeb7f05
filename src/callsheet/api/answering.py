"""What runs ask people, and the answers of a program that knows them.

In: the id of a run, an answer. Out: what is asked, what was answered; the run goes on when it is resumed.
"""

from __future__ import annotations

from callsheet.api.traveling import Traveling
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.inbox import answer_ahead, answer_run, inbox


def _answer_of(given: object) -> Answer:
    """What was said; nothing that only counts as true, such as the text "no", is taken for a yes."""
    match given:
        case Answer():
            return given
        case bool():
            return Answer.approve() if given else Answer.deny()
        case _:
            kind = type(given).__name__
            raise CallsheetError.single(
                "RUN031",
                f"an answer is True, False or an Answer, and not a {kind}",
                help="Answer.of(…) answers a question; Answer.approve() and Answer.deny() say yes and no",
            )


class Answering(Traveling):
    """Lists and answers what the runs of the journal ask."""

    async def inbox(self) -> list[PendingAsk]:
        """What the runs of the journal have asked people and nobody has answered, the oldest first."""
        self._require_journal()
        async with self._opened() as session:
            assert session.journal is not None
            return [ask for ask in inbox(session.journal) if not ask.is_answered]

    async def answer(
        self,
        run_id: str,
        key: str | None = None,
        answer: Answer | bool = True,
        *,
        digest: str | None = None,
        msg_id: str | None = None,
    ) -> PendingAsk:
        """Answer what a run asks, and give what was answered; `resume` carries the run on.

        `run_id` is an id, the beginning of one, or `last`; `key` the key or the step, which may be
        left out where the run asks one thing. `answer` is True or False for a yes or a no, or an
        `Answer`. With `digest` (that of the `PendingAsk` that was looked at) the answer counts only
        if still the same is asked. `msg_id` is the sender's own name for the answer: a second one
        of that name is refused. Raises CallsheetError: RUN030 where nothing such waits, RUN031 for
        an answer that does not fit.
        """
        self._require_journal()
        said = _answer_of(answer)
        async with self._opened() as session:
            assert session.journal is not None
            name = session.find(run_id)
            return answer_run(session.journal, name, said, key, digest=digest, msg_id=msg_id)

    async def answer_ahead(self, run_id: str, key: str, answer: Answer, *, msg_id: str | None = None) -> None:
        """Answer a question that a run will ask under this key; it approves no call.

        The answer is taken when the question comes, if it fits. Raises CallsheetError (RUN030) for
        a run that has ended.
        """
        self._require_journal()
        said = _answer_of(answer)
        async with self._opened() as session:
            assert session.journal is not None
            answer_ahead(session.journal, session.find(run_id), key, said, msg_id)

    def inbox_sync(self) -> list[PendingAsk]:
        """As `inbox`, for programs without an event loop."""
        return self._run_sync(self.inbox(), "inbox")

    def answer_sync(
        self,
        run_id: str,
        key: str | None = None,
        answer: Answer | bool = True,
        *,
        digest: str | None = None,
        msg_id: str | None = None,
    ) -> PendingAsk:
        """As `answer`, for programs without an event loop."""
        return self._run_sync(self.answer(run_id, key, answer, digest=digest, msg_id=msg_id), "answer")
