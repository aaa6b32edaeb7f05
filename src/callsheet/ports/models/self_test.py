"""Tests a model with a short call, and with one under each constraint syntax that it claims to support.

In: a model. Out: its answer with its usage, and which constraints work. Raises ModelFailed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from callsheet.ports.models.model import Completion, Constraint, LanguageModel, ModelFailed, Syntax
from callsheet.ports.models.prompts import Messages

_MOST_TOKENS = 1_024
"""Enough for models that reason before they answer; others need three."""
_ASK: Messages = [{"role": "user", "content": "Answer with the one word: ready"}]
_HELD: Messages = [{"role": "user", "content": "Name a colour."}]
"""A question whose unconstrained answer violates the constraints below."""
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
class SelfTest:
    """The result: the answer, the constraints that work, and those that do not, with the reason."""

    answer: Completion
    kept: tuple[Syntax, ...]
    broken: tuple[tuple[Syntax, str], ...]


async def try_model(model: LanguageModel) -> SelfTest:
    """Test a model; raises ModelFailed if it does not answer even without a constraint."""
    answer = await model.complete(_ASK, max_tokens=_MOST_TOKENS)
    syntaxes: list[Syntax] = []
    broken: list[tuple[Syntax, str]] = []
    for syntax in tuple(model.accepts):
        why = await _broken(model, syntax)
        if why is None:
            syntaxes.append(syntax)
        else:
            broken.append((syntax, why))
    return SelfTest(answer, tuple(syntaxes), tuple(broken))


async def _broken(model: LanguageModel, syntax: Syntax) -> str | None:
    """Why a constraint syntax does not work with a model; None if it does."""
    constraint = Constraint(syntax, _TEXTS[syntax], "colour")
    try:
        completion = await model.complete(_HELD, constraint, max_tokens=_MOST_TOKENS)
    except ModelFailed as error:
        return str(error)
    if not completion.constrained:
        return "its provider refuses it"
    return None if _is_held(completion.text, syntax) else "its answer does not follow it"


def _is_held(text: str, syntax: Syntax) -> bool:
    if syntax is not Syntax.JSON_SCHEMA:
        return text.strip() == _WORD
    try:
        return json.loads(text) == {"word": _WORD}
    except ValueError:
        return False
