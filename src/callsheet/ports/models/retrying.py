"""Retries the calls of a model, and leaves out constraints that its provider does not support.

In: a model that tries once per call. Out: the same model with retries after temporary failures. Constraint
syntaxes that the provider refused are remembered.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Strength,
    Syntax,
    strength_of,
)
from callsheet.ports.models.prompts import Messages

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0
"""Seconds; if a provider asks for a longer wait, there is no retry."""
_PASSING = frozenset({Failure.LIMITED, Failure.TIMEOUT, Failure.UNREACHABLE, Failure.OVERLOADED})
_ONCE_MORE = frozenset({Failure.EMPTY, Failure.MALFORMED, Failure.TIMEOUT})
"""Failures that are retried only once, since each attempt may cost as much as an answer."""

Sleep = Callable[[float], Awaitable[None]]


class PatientModel:
    """A model with up to `retries` retries, with growing waits between them.

    A provider's `Retry-After` is respected up to a minute. A constraint that the provider refuses is left
    out, now and for the life of this object: the answer is then free text, and `Completion.constrained` is
    False. If `leaves_out` is False, a refusal is a failure of that one call. `worth` are the failures to
    retry; None means all temporary failures of providers.
    """

    def __init__(
        self,
        model: LanguageModel,
        retries: int = 3,
        *,
        worth: Collection[Failure] | None = None,
        leaves_out: bool = True,
        sleep: Sleep = asyncio.sleep,
        first: float = _FIRST_WAIT,
    ) -> None:
        self._model = model
        self._retries = retries
        self._worth = _PASSING | _ONCE_MORE if worth is None else frozenset(worth)
        self._leaves_out = leaves_out
        self._sleep = sleep
        self._first = first
        self._refused: frozenset[Syntax] = frozenset()

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.name

    @property
    def accepts(self) -> Sequence[Syntax]:
        """What the model supports, without what its provider has refused."""
        return tuple(syntax for syntax in self._model.accepts if syntax not in self._refused)

    @property
    def strength(self) -> Strength:
        """The model's own strength."""
        return strength_of(self._model)

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Ask until there is an answer or no retry is left; raises the ModelFailed of the last attempt."""
        if constraint is not None and constraint.syntax not in self._model.accepts:
            raise ValueError(f"{self.name} does not support {constraint.syntax}")
        if constraint is not None and constraint.syntax not in self.accepts:
            constraint = None
        began, tries, again = time.monotonic(), 0, 0
        while True:
            tries += 1
            try:
                answer = await self._model.complete(messages, constraint, max_tokens=max_tokens)
            except ModelFailed as error:
                if error.kind is Failure.CONSTRAINT and constraint is not None and self._leaves_out:
                    self._refused |= {constraint.syntax}
                    constraint = None
                    continue
                wait = self._wait(error, again)
                if wait is None:
                    raise self._after(error, tries) from error
                again += 1
                await self._sleep(wait)
            else:
                seconds = round(time.monotonic() - began, 3)
                return replace(answer, usage=replace(answer.usage, seconds=seconds, tries=tries))

    def _wait(self, error: ModelFailed, again: int) -> float | None:
        """Seconds to wait before the next attempt; None if there is none."""
        most = min(1, self._retries) if error.kind in _ONCE_MORE else self._retries
        if error.kind not in self._worth or again >= most:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= _LONGEST_WAIT else None
        wait = min(self._first * 2**again, _LONGEST_WAIT)
        return wait * random.uniform(0.75, 1.25)

    def _after(self, error: ModelFailed, tries: int) -> ModelFailed:
        """The failure of the last attempt, with the number of attempts and the requested wait in its text."""
        message = str(error)
        if tries > 1:
            message += f" (asked {tries} times)"
        waits = error.retry_after
        if waits is not None and _LONGEST_WAIT < waits < math.inf:
            message += f"; it asks to wait {waits:,.0f} s"
        return ModelFailed(error.kind, message, retry_after=waits, model=self.name)
