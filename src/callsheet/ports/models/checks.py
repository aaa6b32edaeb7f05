"""Checks a model's answer against the form that its operation promises, and normalises it.

Pure. In: an operation's arguments and the text of a model. Out: the answer in the promised form, or None if
it does not have it.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from callsheet.machine import CallModel, to_text
from callsheet.machine.values import parse_json
from callsheet.ports.models.prompts import NOT_FOUND, asks_for_json

_AROUND = " \t\r\n.!*`\"'“”‘’[]()<>"
_LABEL = re.compile(
    r"(?:the\s+)?(?:answer|result|category|condition|verdict)\s*(?:is\b|[:=])\s*", re.IGNORECASE
)
_TRUE = frozenset({"true", "yes"})
_FALSE = frozenset({"false", "no"})
_VERDICT = re.compile(r"\W*(true|false|yes|no)(?:\W*[.,;:!(\n–—]|\W*\s-)", re.IGNORECASE)
_FENCED = re.compile(r"```[^\n`]{0,40}\n(.*?)\n?[ \t]*```", re.DOTALL)
_MOST_STARTS = 100
"""The most places in an answer at which JSON is searched for, which bounds the time for "[[[[…"."""


def checked(command: CallModel, answer: str) -> str | None:
    """The answer in the form that its operation promises; None if it does not have it."""
    match command.tool:
        case "LLM_EVALUATE":
            return _verdict(answer)
        case "LLM_CLASSIFY":
            categories = categories_of(command)
            return (answer or None) if categories is None else _category(answer, categories)
        case "LLM_EXTRACT" if _folded(answer) in ("", _folded(NOT_FOUND)):
            return ""
        case _:
            return json_text(answer) if asks_for_json(command.args) else answer or None


def reminder(command: CallModel) -> str:
    """The instruction for a second attempt, after an answer in the wrong form."""
    if command.tool == "LLM_EVALUATE":
        return "Answer with exactly one of: TRUE, FALSE"
    categories = categories_of(command) if command.tool == "LLM_CLASSIFY" else None
    if categories:
        return f"Answer with exactly one of: {', '.join(categories)}"
    return "Answer with JSON alone." if asks_for_json(command.args) else "The answer must not be empty."


def categories_of(command: CallModel) -> tuple[str, ...] | None:
    """The categories as texts, without duplicates; None if the step gives none.

    A string may be a JSON list or separated by commas; the keys of a dict count.
    """
    if "categories" not in command.args:
        return None
    given: Any = command.args["categories"]
    if isinstance(given, str):
        is_json, parsed = parse_json(given)
        given = parsed if is_json and isinstance(parsed, list | dict) else given.split(",")
    items = list(cast("list[Any]", given)) if isinstance(given, list | dict) else [given]
    texts = (to_text(category).strip() for category in items)
    return tuple(dict.fromkeys(text for text in texts if text))


def _category(answer: str, categories: tuple[str, ...]) -> str | None:
    """The category that an answer names: as a whole, or in its first or last line."""
    text = answer.strip()
    if text in categories:
        return text
    by_fold: dict[str, str] = {}
    for category in categories:
        by_fold.setdefault(_folded(category), category)
    return next((by_fold[fold] for fold in _readings(text) if fold in by_fold), None)


def _verdict(answer: str) -> str | None:
    """TRUE or FALSE, as the answer says; None if it says neither or both."""
    for fold in _readings(answer):
        if fold in _TRUE or fold in _FALSE:
            return "TRUE" if fold in _TRUE else "FALSE"
    begins = _VERDICT.match(answer)
    if begins is None:
        return None
    word = "TRUE" if begins.group(1).casefold() in _TRUE else "FALSE"
    other = "FALSE" if word == "TRUE" else "TRUE"
    return None if re.search(rf"\b{other}\b", answer, re.IGNORECASE) else word


def _readings(answer: str) -> list[str]:
    """The answer, its first and its last line, without a label and surrounding punctuation."""
    lines = [line for line in answer.splitlines() if line.strip()]
    texts = [answer, *lines[:1], *lines[-1:]]
    return [_folded(_LABEL.sub("", text.strip(_AROUND), count=1)) for text in texts]


def _folded(text: str) -> str:
    """A text for comparison: without case, surrounding punctuation, and differences of white space."""
    return " ".join(text.strip(_AROUND).casefold().replace("_", " ").replace("-", " ").split())


def json_text(answer: str) -> str | None:
    """The JSON text in an answer: all of it, that in a fence, or the longest list or object in prose.

    >>> json_text('Here:\\n```json\\n{"a": 1}\\n```'), json_text("[1, 2] are the numbers"), json_text("no")
    ('{"a": 1}', '[1, 2]', None)
    """
    stripped = answer.strip()
    if parse_json(stripped)[0]:
        return stripped
    for fenced in _FENCED.findall(answer):
        if parse_json(fenced.strip())[0]:
            return fenced.strip()
    return max(_values_in(answer), key=len, default=None)


def _values_in(text: str) -> list[str]:
    """The outermost JSON lists and objects in a text."""
    decoder, values, at = json.JSONDecoder(), list[str](), 0
    for _ in range(_MOST_STARTS):
        start = min((n for n in (text.find("{", at), text.find("[", at)) if n >= 0), default=-1)
        if start < 0:
            break
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        if parse_json(text[start:end])[0]:
            values.append(text[start:end])
        at = end
    return values


def without_marks(answer: str, mark: str) -> str:
    """An answer without the marks of the prompt, which some models repeat."""
    for name in (mark, f"{mark} 1"):
        if answer.startswith(f"<{name}>") and answer.endswith(f"</{name}>"):
            return answer[len(name) + 2 : -len(name) - 3].strip()
    return answer
