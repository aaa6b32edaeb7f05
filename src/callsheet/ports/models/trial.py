"""A short call of a model, and one under each constraint that it says to take, to see whether they work.

In: a model. Out: what it answered, how long that took, and which constraints it keeps. Raises ModelFailed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from callsheet.ports.models.model import Completion, Constraint, LanguageModel, ModelFailed, Syntax
from callsheet.ports.models.prompts import Messages

_MOST_TOKENS = 1_024
"""Enough for models that think before they answer; others need three."""
_ASK: Messages = [{"role": "user", "content": "Answer with the one word: ready"}]
_HELD: Messages = [{"role": "user", "content": "Name a colour."}]
"""A question whose free answer is not what the constraints below allow."""
_WORD = "xyzzy-17"
_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": [_WORD]}},
    "required": ["word"],
    "additionalProperties": False,
}
_TEXTS = {
    Syntax.LARK: f'start: "{_WORD}"',
    Syntax.GBNF: f'root ::= "{_WORD}"',
    Syntax.JSON_SCHEMA: json.dumps(_SCHEMA),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What a model did: its answer; the constraints that it kept, and those that it did not, with why."""

    answer: Completion
    kept: tuple[Syntax, ...]
    broken: tuple[tuple[Syntax, str], ...]


async def try_model(model: LanguageModel) -> Trial:
    """Ask a model a few words; raises ModelFailed where it does not even answer without a constraint."""
    answer = await model.complete(_ASK, max_tokens=_MOST_TOKENS)
    kept: list[Syntax] = []
    broken: list[tuple[Syntax, str]] = []
    for syntax in tuple(model.accepts):
        why = await _broken(model, syntax)
        if why is None:
            kept.append(syntax)
        else:
            broken.append((syntax, why))
    return Trial(answer, tuple(kept), tuple(broken))


async def _broken(model: LanguageModel, syntax: Syntax) -> str | None:
    """Why a constraint does not work with a model; None where it does."""
    constraint = Constraint(syntax, _TEXTS[syntax], "colour")
    try:
        said = await model.complete(_HELD, constraint, max_tokens=_MOST_TOKENS)
    except ModelFailed as error:
        return str(error)
    if not said.constrained:
        return "its provider refuses it"
    return None if _is_held(said.text, syntax) else "its answer does not keep to it"


def _is_held(text: str, syntax: Syntax) -> bool:
    if syntax is not Syntax.JSON_SCHEMA:
        return text.strip() == _WORD
    try:
        return json.loads(text) == {"word": _WORD}
    except ValueError:
        return False
