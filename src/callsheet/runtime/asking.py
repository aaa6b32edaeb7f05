"""Asks a run's questions and delivers the answers that arrive while its process lives.

In: questions, messages in the run's inbox, perhaps a callback. Out: events of answers and expiries. Messages
of other processes are found by polling the inbox: that needs no socket, survives every process, and costs one
read.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.lazy import dataclass
from callsheet.machine import Answered, Ask, Verdict
from callsheet.machine.questions import ASK, Approval, Asked, Question, asked_to_json
from callsheet.ports.calls import ServerQuestion
from callsheet.ports.timeouts import give_up
from callsheet.runtime.answers import Answer, PendingAsk, answered, find_answer, misfit, pending
from callsheet.runtime.concurrent_calls import ConcurrentCalls
from callsheet.store.errors import Fenced, JournalError
from callsheet.store.mailbox import Message
from callsheet.store.snapshots import AskTimes

OnServer: TypeAlias = "Callable[[str, ServerQuestion], Awaitable[JSON]]"
"""Answers what a server asks during the call with a key, in its protocol; None leaves it to others."""
OnAsk: TypeAlias = "Callable[[PendingAsk], Awaitable[Answer | bool | None] | Answer | bool | None]"
"""A callback that answers: an Answer, True or False for approve or deny, None to leave it to the inbox."""

if TYPE_CHECKING:
    from callsheet.ir import Plan
    from callsheet.policy.model import Policy
    from callsheet.views.call_site import CallSite

_PATIENCE = 5.0
"""Seconds that a callback has to end when its question is withdrawn."""
_NOBODY = "nobody can be asked: the run has no journal and no function that answers"
_NO_ROLE = "only somebody with the role {} may answer, and a run without a journal cannot wait for them"
_ONCE = "a function answers for each call; answers for the plan are given with `Runtime.answer`"
_log = logging.getLogger("callsheet")


@dataclass(frozen=True, slots=True)
class Respondents:
    """Who can answer while a run goes on.

    `on_ask` is called with each question. With `waits` the process stays until all questions are answered;
    without it, the run stops when nothing else is left to do. The inbox is polled every `poll` seconds.
    """

    on_ask: OnAsk | None = None
    waits: bool = False
    poll: float = 0.5
    on_server: OnServer | None = None
    """Answers what a server asks during a call, in its own protocol; None leaves it to the others."""
    shows: Callable[[PendingAsk], None] | None = None
    """Is told what a server asks if that is left to the inbox, since the run goes no further until then."""
    vouches: bool = False
    """Whether answers of `on_ask` count where a role is demanded: it belongs to a program that runs plans."""


_ABSENT = Respondents()


@dataclass(slots=True)
class People:
    """The questions of a run and when they were asked. `messages` reads its inbox; None if it has none. It
    raises Fenced when the run was taken over.

    `before` has the times of questions from before the run was changed, so that their time limit continues.
    `policy` is the run's, which may demand a role of who answers.
    """

    run_id: str
    messages: Callable[[], list[Message]] | None = None
    present: Respondents = _ABSENT
    posed: dict[str, AskTimes] = field(default_factory=dict[str, AskTimes])
    before: dict[str, AskTimes] = field(default_factory=dict[str, AskTimes])
    policy: Policy | None = None
    site: Callable[[str, Asked], CallSite | None] = field(default=lambda _key, _asked: None)
    """Where a call that asks stands in the text of its plan, by its key."""

    def recorded(self, asked: Asked, posed: AskTimes) -> dict[str, JSON]:
        """A question as the body of an event: with the time by which, and the role by which, to answer."""
        role = role_in(self.policy, asked)
        return {**asked_to_json(asked), "due": posed.due, **({"role": role} if role else {})}

    def shown(self, key: str, step: str, asked: Asked, posed: AskTimes) -> PendingAsk:
        """A question as it is shown to those who are present."""
        role = role_in(self.policy, asked)
        return pending(self.run_id, key, step, asked, posed, role=role, site=self.site(key, asked))

    def pose(self, ask: Ask) -> AskTimes:
        """When this was asked and until when it can be answered; a new question is asked now."""
        digest = ask.asked.digest
        known = self.posed.get(digest)
        if known is None:
            known = self.posed[digest] = self.before.get(digest) or _posed_now(ask.asked.timeout)
        return known

    def find_answer(self, ask: Ask, messages: list[Message]) -> Answered | None:
        """The answer to a question or its expiry by now, by the wall clock; None if there is neither."""
        return find_answer(ask, self.pose(ask), messages, time.time())


def site_in(plans: Callable[[str], tuple[Plan, str]], key: str, asked: Asked) -> CallSite | None:
    """Where a call that asks stands in the text of its plan; `plans` gives both by the plan's hash.

    None for a question, and where there is no such text.
    """
    if not isinstance(asked, Approval):
        return None
    from callsheet.views.call_site import call_site  # noqa: PLC0415 - only where somebody is asked

    try:
        plan, text = plans(asked.plan)
    except JournalError:
        return None
    return call_site(text, asked.plan, key, asked.tool, plan.id)


def role_in(policy: Policy | None, asked: Asked | PendingAsk) -> str:
    """The role that a policy demands of whoever answers a question; empty if it demands none.

    What an entry says of `@ASK_HUMAN` holds for all questions of plans.
    """
    if policy is None:
        return ""
    from callsheet.policy.builtins import approver_of  # noqa: PLC0415 - only where somebody answers

    return approver_of(policy, ASK if isinstance(asked, Question) else asked.tool or ASK)


async def reply_of(on_ask: OnAsk, shown: PendingAsk, *, vouches: bool) -> Any:
    """What a callback replies, True and False as answers; any error in it counts as a denial.

    Where the policy demands a role, the reply counts only if the callback `vouches` for who answers.
    """
    try:
        reply: Any = on_ask(shown)
        if inspect.isawaitable(reply):
            reply = await reply
    except Exception as error:
        _log.exception("the function that answers in place of a person failed")
        reply = Answer.deny(note=f"the function that answers failed: {type(error).__name__}: {error}")
    if shown.role and reply is not None and not vouches:
        _log.warning(
            "the answer to %s of run %s does not count: only somebody with the role %s may answer",
            shown.key,
            shown.run_id,
            shown.role,
        )
        return None
    if isinstance(reply, bool):
        return Answer.approve() if reply else Answer.deny()
    return reply


def _posed_now(timeout: float | None) -> AskTimes:
    now = time.time()
    return AskTimes(now, None if timeout is None else now + timeout)


class _Open(NamedTuple):
    ask: Ask
    posed: AskTimes
    deadline: float | None
    """By the loop's clock, so that setting the wall clock does not end a question early."""


class OpenQuestions:
    """The `open` questions of a run in progress, by key; answers arrive among the events of its calls."""

    def __init__(self, people: People, concurrent: ConcurrentCalls) -> None:
        self._people = people
        self._concurrent = concurrent
        self.open: dict[str, _Open] = {}
        self._calling: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    def ask(self, ask: Ask) -> None:
        """Open a question; an answer that is already there is delivered at once."""
        people, posed = self._people, self._people.pose(ask)
        deadline = None
        if posed.due is not None:
            seconds_left = min(posed.due - time.time(), posed.due - posed.since)
            deadline = asyncio.get_running_loop().time() + max(0.0, seconds_left)
        self.open[ask.key] = _Open(ask, posed, deadline)
        if self._look_for(ask.key, self._messages()):
            return
        if people.present.on_ask is not None:
            task = asyncio.create_task(self._call(ask, people.present.on_ask))
            self._calling.add(task)
            task.add_done_callback(self._called)
        elif people.messages is None:
            self._close(answered(ask.key, ask.asked, Answer.deny(note=_NOBODY)))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_again())

    def is_awaited(self) -> bool:
        """Whether an answer may still arrive while this process lives; delivers those already there."""
        return bool(self.open) and (self._deliver() or bool(self._calling) or self._people.present.waits)

    @property
    def is_idle(self) -> bool:
        """Whether no question is open and no task is running."""
        return not self.open and not self._calling and self._looking is None

    async def close(self) -> None:
        """Stop asking and polling; the questions stay unanswered."""
        self.open.clear()
        tasks: set[asyncio.Future[Any]] = {*self._calling}
        if self._looking is not None:
            tasks.add(self._looking)
        tasks = {task for task in tasks if not task.done()}
        if tasks:
            await give_up(tasks, _PATIENCE)

    def _messages(self) -> list[Message]:
        return [] if self._people.messages is None else self._people.messages()

    def _deliver(self) -> bool:
        """Deliver all answers and expiries; return whether there were any."""
        messages = self._messages()
        return sum(self._look_for(key, messages) for key in tuple(self.open)) > 0

    def _look_for(self, key: str, messages: list[Message]) -> bool:
        ask, posed, deadline = self.open[key]
        now = asyncio.get_running_loop().time()
        is_over = deadline is not None and now >= deadline
        event = find_answer(ask, posed, messages, float("-inf"))
        if event is None and is_over:
            event = Answered(key, ask.asked.digest, Verdict.EXPIRE)
        if event is not None:
            self._close(event)
        return event is not None

    def _close(self, event: Answered) -> None:
        """Deliver an answer unless the question is already closed."""
        if self.open.pop(event.key, None) is not None:
            self._concurrent.deliver(event)

    def _called(self, task: asyncio.Task[None]) -> None:
        self._calling.discard(task)
        self._concurrent.wake()

    async def _look_again(self) -> None:
        now = asyncio.get_running_loop().time
        while self.open:
            ends = [o.deadline for o in self.open.values() if o.deadline is not None]
            pause = min([self._people.present.poll, *(max(0.001, end - now()) for end in ends)])
            await asyncio.sleep(pause)
            try:
                self._deliver()
            except Fenced as error:
                self._concurrent.fail(error)
                return
            except CallsheetError as error:
                # The journal is unreadable now; the run itself will notice when it writes.
                _log.warning("%s: the inbox cannot be read: %s", error.diagnostics[0].code, error)

    async def _call(self, ask: Ask, on_ask: OnAsk) -> None:
        """Ask the callback; any error in it counts as a denial."""
        people = self._people
        shown = people.shown(ask.key, ask.step, ask.asked, people.pose(ask))
        reply = await reply_of(on_ask, shown, vouches=people.present.vouches)
        if reply is None:
            if people.messages is not None:
                return
            reply = Answer.deny(note=_NO_ROLE.format(shown.role) if shown.role else _NOBODY)
        wrong = "it must be an Answer, a bool or None"
        if isinstance(reply, Answer):
            wrong = misfit(ask.asked, reply) or (_ONCE if reply.for_plan or reply.for_program else None)
        if wrong is not None:
            reply = Answer.deny(note=f"the answer does not fit: {wrong}")
        self._close(answered(ask.key, ask.asked, reply))
