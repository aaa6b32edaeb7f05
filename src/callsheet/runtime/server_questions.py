"""What servers ask while a call of one of their tools is under way: recorded, shown to people, answered.

The machine knows nothing of it, since it changes neither the call nor what follows: a call that is made again
asks again. In: the request of a server. Out: its answer in the server's protocol, from whoever is present or
from the inbox; None if nobody can answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.machine import Answered, Question, Verdict
from callsheet.ports.calls import ServerQuestion
from callsheet.runtime.answers import Answer, answered, answers, misfit
from callsheet.runtime.asking import reply_of, role_in
from callsheet.store.errors import Fenced
from callsheet.store.events import EventType
from callsheet.store.snapshots import AskTimes

if TYPE_CHECKING:
    from callsheet.runtime.asking import People

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
ELICIT_URL = "elicitation/create url"
"""The request for opening a URL, which not every client that has forms can do."""
LONGEST = 600.0
"""Seconds after which a question that nobody has answered is taken back."""
_log = logging.getLogger("callsheet")


class Notebook(Protocol):
    """The recorder of a run."""

    def beside(self, kind: EventType, key: str, body: dict[str, Any], msg_id: str = "") -> None:
        """Record something about a call that the machine does not take."""


def said_by_server(asked: ServerQuestion) -> str:
    """The message of an elicitation with the server's name, without which it could pose as callsheet."""
    return f"the server {asked.server} asks: {asked.params.get('message', '')}"


def question_of(asked: ServerQuestion) -> Question | None:
    """What a person is asked for a server; None for what no person can answer.

    >>> question_of(ServerQuestion("desk", "elicitation/create", {"message": "Which?"})).prompt
    'the server desk asks: Which?'
    """
    params, name = asked.params, asked.server
    if asked.method == ELICIT:
        message = said_by_server(asked)
        if params.get("mode") == "url":
            return Question(f"{message}\nopen {params.get('url', '')} in a browser, and then agree")
        schema = params.get("requestedSchema")
        return Question(message, schema=cast("Any", schema) if isinstance(schema, dict) else {})
    if asked.method == SAMPLE:
        said = json.dumps(params.get("messages", []), ensure_ascii=False)
        return Question(f"the server {name} asks a language model: {said}", schema={"type": "string"})
    return None


def result_of(asked: ServerQuestion, event: Answered) -> JSON:
    """The answer of a person in the server's protocol.

    >>> yes = Answered("S1.0.1", "", Verdict.ANSWER, {"day": "Monday"})
    >>> result_of(ServerQuestion("desk", "elicitation/create", {}), yes)
    {'action': 'accept', 'content': {'day': 'Monday'}}
    """
    if asked.method == SAMPLE:
        if event.verdict is not Verdict.ANSWER:
            return None
        content: JSON = {"type": "text", "text": str(event.value)}
        return {"role": "assistant", "content": content, "model": "a person", "stopReason": "endTurn"}
    match event.verdict:
        case Verdict.ANSWER:
            return {"action": "accept", "content": event.value}
        case Verdict.APPROVE:
            return {"action": "accept"}
        case Verdict.DENY:
            return {"action": "decline"}
        case Verdict.EXPIRE:
            return {"action": "cancel"}


class ServerQuestions:
    """Answers what servers ask during the calls of one run.

    `people` are those of the run, `notebook` its recorder, and `settle` makes durable what was recorded.
    `goes_on` says whether anything may still be recorded: a question that is taken back may outlive the run.
    """

    def __init__(
        self,
        people: People,
        notebook: Notebook | None,
        settle: Callable[[], None],
        goes_on: Callable[[], bool],
    ) -> None:
        self._people = people
        self._notebook = notebook
        self._settle = settle
        self._goes_on = goes_on
        self._count = 0

    async def answer(self, key: str, asked: ServerQuestion) -> JSON:
        """The answer in the server's protocol; None if nobody can answer."""
        on_server, question = self._people.present.on_server, question_of(asked)
        if question is not None and role_in(self._people.policy, question):
            on_server = None  # nobody knows who answers in the client
        if question is None:  # nothing that a person has to know of
            return None if on_server is None else await on_server(key, asked)
        self._count += 1
        question = question._replace(digest=_digest(key, self._count, asked))
        now = time.time()
        posed = AskTimes(now, now + LONGEST)
        body = {**self._people.recorded(question, posed), "server": asked.server, "method": asked.method}
        self._note(EventType.SERVER_ASKS, key, {**body, "params": asked.params})
        result, by, msg_id = None, "", ""
        try:
            result = None if on_server is None else await on_server(key, asked)
            if result is None:
                event = await self._person(key, question, posed)
                if event is not None:
                    result, by, msg_id = result_of(asked, event), event.by, event.msg_id
        finally:
            told = {"digest": question.digest, "result": result, **({"by": by} if by else {})}
            self._note(EventType.SERVER_TOLD, key, told, msg_id)
        return result

    def _note(self, kind: EventType, key: str, body: dict[str, Any], msg_id: str = "") -> None:
        if self._notebook is not None and self._goes_on():
            self._notebook.beside(kind, key, body, msg_id)
            self._settle()

    async def _person(self, key: str, question: Question, posed: AskTimes) -> Answered | None:
        """The answer of a person who is present, or from the inbox, in time."""
        people = self._people
        shown = people.shown(key, key.partition(".")[0], question, posed)
        if people.present.on_ask is not None and people.present.on_server is None:
            reply = await reply_of(people.present.on_ask, shown, vouches=people.present.vouches)
            if isinstance(reply, Answer) and misfit(question, reply) is None:
                return answered(key, question, reply)
        elif people.present.shows is not None and people.messages is not None:
            people.present.shows(shown)
        if people.messages is None:
            return None
        assert posed.due is not None
        while time.time() < posed.due:
            try:
                for message in people.messages():
                    event = answers(message, key, question)
                    if event is not None and message.payload.get("digest") == question.digest:
                        return event
            except Fenced:
                break  # the run itself notices it when the call has ended and is recorded
            except CallsheetError as error:
                _log.warning("%s: the inbox cannot be read: %s", error.diagnostics[0].code, error)
            await asyncio.sleep(people.present.poll)
        return Answered(key, question.digest, Verdict.EXPIRE)


def _digest(key: str, count: int, asked: ServerQuestion) -> str:
    """A hash of all that is asked, and of the call that it is asked in."""
    shown: Mapping[str, object] = {"key": key, "count": count, "at": time.time(), **asked._asdict()}
    return sha256(json.dumps(shown, sort_keys=True, default=repr).encode("utf-8", "replace")).hexdigest()
