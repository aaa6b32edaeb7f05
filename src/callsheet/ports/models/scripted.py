"""Models for tests: with predefined answers, or with those that a file has recorded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted_list, wanted_path
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Stop,
    Strength,
    Syntax,
    Usage,
    context_of,
    identify,
    strength_of,
)
from callsheet.ports.models.prompts import Messages

Said: TypeAlias = "str | Completion | ModelFailed"
"""An answer, or the failure to give one."""
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a scripted model."""

    messages: Messages
    constraint: Constraint | None
    max_tokens: int | None


class ScriptedModel:
    """A model that gives these answers, one per call, or those of a function of the conversation.

    A text becomes an answer whose tokens are estimated by its length; a ModelFailed is raised. `asked` has
    the requests in order. Without a further answer, it fails as if the answer were empty.

    >>> import asyncio
    >>> model = ScriptedModel(["Paris"])
    >>> asyncio.run(model.complete([{"role": "user", "content": "The capital of France?"}])).text
    'Paris'
    """

    def __init__(
        self,
        answers: Iterable[Said] | Callable[[Messages], Said],
        *,
        accepts: Sequence[Syntax] = (),
        name: str = "scripted",
        strength: Strength = Strength.STRONG,
    ) -> None:
        self._function = answers if callable(answers) else None
        if not callable(answers):
            wanted_list("answers", answers, "answers, or a function")
        self._answers = [] if callable(answers) else list(answers)
        self._accepts = tuple(accepts)
        self._name = name
        self._strength = strength
        self.asked: list[Request] = []

    @property
    def name(self) -> str:
        """The name given to the model."""
        return self._name

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraint syntaxes that it claims to support; its answers are not checked against them."""
        return self._accepts

    @property
    def strength(self) -> Strength:
        """The strength that it claims to have."""
        return self._strength

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """The next answer; raises ModelFailed if the script says so or has no further answer."""
        if constraint is not None and constraint.syntax not in self._accepts:
            raise ValueError(f"{self.name} does not support {constraint.syntax}")
        self.asked.append(Request([dict(message) for message in messages], constraint, max_tokens))
        answer = self._next(messages)
        if isinstance(answer, ModelFailed):
            raise answer
        if isinstance(answer, Completion):
            return answer
        read = sum(len(message["content"]) for message in messages)
        usage = Usage(read // _CHARACTERS_A_TOKEN + 1, len(answer) // _CHARACTERS_A_TOKEN + 1, cost=0.0)
        return Completion(answer, usage, model=self.name, constrained=constraint is not None)

    def _next(self, messages: Messages) -> Said:
        if self._function is not None:
            return self._function(messages)
        if not self._answers:
            return ModelFailed(Failure.EMPTY, "the script has no further answer", model=self.name)
        return self._answers.pop(0)


_VERSION = 1
_HINT = 'record it again: RecordedModel(path, model, mode="record")'


def _about(model: LanguageModel) -> dict[str, Any]:
    """What a recording says of its model."""
    return {
        "name": model.name,
        "accepts": [str(syntax) for syntax in model.accepts],
        "strength": str(strength_of(model)),
        **({} if (context := context_of(model)) is None else {"context": context}),
    }


class RecordedModel:
    """A model that answers from the file at `path`.

    With `mode="record"` the `model` is called, and its answers and failures are written to the file. Raises
    CallsheetError (MDL013) for a request that was not recorded and for an invalid file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: LanguageModel | None = None,
        *,
        mode: Literal["record", "replay"] = "replay",
    ) -> None:
        if mode == "record" and model is None:
            raise ValueError('mode="record" needs a model to ask')
        self._path = wanted_path("path", path)
        self._model = model if mode == "record" else None
        if self._model is not None:
            answers: dict[str, Any] = _read(self._path)["answers"] if self._path.exists() else {}
            about = _about(self._model)
            self._tape: dict[str, Any] = {"recorded_answers": _VERSION, **about, "answers": answers}
        else:
            self._tape = _read(self._path)

    @property
    def name(self) -> str:
        """The name of the model that was recorded."""
        return str(self._tape["name"])

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraint syntaxes that the recorded model supports."""
        return tuple(map(Syntax, self._tape["accepts"]))

    @property
    def strength(self) -> Strength:
        """The strength of the recorded model; strong in a file that does not say it."""
        return Strength(self._tape.get("strength", Strength.STRONG))

    @property
    def context(self) -> int | None:
        """The context of the recorded model, if it was told."""
        return self._tape.get("context")

    async def identify(self) -> None:
        """Have the model that is recorded find out what it is."""
        if self._model is not None:
            await identify(self._model)
            self._tape |= _about(self._model)

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """The recorded answer; raises ModelFailed for a recorded failure, CallsheetError if there is none."""
        digest = digest_of(messages, constraint)
        if self._model is None:
            return self._recorded(digest)
        try:
            completion = await self._model.complete(messages, constraint, max_tokens=max_tokens)
        except ModelFailed as error:
            self._record(digest, {"failure": str(error.kind), "message": str(error), "model": error.model})
            raise
        self._record(digest, asdict(completion))
        return completion

    def _recorded(self, digest: str) -> Completion:
        answer: dict[str, Any] | None = self._tape["answers"].get(digest)
        if answer is None:
            raise CallsheetError.single(
                "MDL013", f"{self._path} holds no answer to this request ({digest[:16]})", help=_HINT
            )
        if "failure" in answer:
            raise ModelFailed(Failure(answer["failure"]), answer["message"], model=answer["model"])
        usage = Usage(**answer["usage"])
        return Completion(
            answer["text"], usage, Stop(answer["stop"]), answer["model"], constrained=answer["constrained"]
        )

    def _record(self, digest: str, answer: dict[str, Any]) -> None:
        """Add an answer and write the file atomically."""
        self._tape["answers"][digest] = answer
        new_file = self._path.with_name(f"{self._path.name}.new")
        new_file.write_text(json.dumps(self._tape, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        new_file.replace(self._path)


def digest_of(messages: Messages, constraint: Constraint | None) -> str:
    """The hash of a request's messages and constraint."""
    constraint_data = None if constraint is None else [str(constraint.syntax), constraint.text]
    turns = [[message["role"], message["content"]] for message in messages]
    return sha256(
        json.dumps([turns, constraint_data], ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        data: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        message = f"the recorded answers {path} cannot be read: {reason}"
        raise CallsheetError.single("MDL013", message, help=_HINT) from error
    tape = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if tape.get("recorded_answers") != _VERSION or not isinstance(tape.get("answers"), dict):
        message = f"{path} holds no recorded answers of version {_VERSION}"
        raise CallsheetError.single("MDL013", message, help=_HINT)
    return tape
