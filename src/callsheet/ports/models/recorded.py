"""Records a model's answers in a file and replays them, so that tests run without the model.

In: a model and a file, or the file alone. Out: the same answers to the same requests. A request is
identified by the hash of its messages and its constraint; the file never contains a key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted_path
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
    strength_of,
)
from callsheet.ports.models.prompts import Messages

_VERSION = 1
_HINT = 'record it again: RecordedModel(path, model, mode="record")'


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
            about = {
                "name": self._model.name,
                "accepts": [str(syntax) for syntax in self._model.accepts],
                "strength": str(strength_of(self._model)),
            }
            answers: dict[str, Any] = _read(self._path)["answers"] if self._path.exists() else {}
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
