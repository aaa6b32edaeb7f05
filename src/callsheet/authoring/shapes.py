"""Describes values and failures without their content, for prompts.

Pure. In: values, error messages. Out: descriptions for a model. Results of tools may be private or contain
injected instructions: a planning model sees their kind and size, and their content only if that is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from callsheet import lazy
from callsheet.ir import JSON
from callsheet.machine import Cut

MAX_VALUE = 2_000
"""The most characters of a value in a prompt."""
_MOST_FIELDS = 20
_FIELD = lazy.pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,40}")

Shared: TypeAlias = "Collection[str] | Callable[[str], bool]"
"""The variables whose values a model may see: their names, or a predicate on a name."""

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("took too long", r"tim(?:ed?|e-) ?out|took too long|deadline|no answer within"),
        ("limited for now", r"rate.?limit|too many requests|\b429\b|quota"),
        ("not allowed", r"permission|forbidden|denied|unauthori[sz]ed|not allowed|\b40[13]\b"),
        ("not found", r"not found|no such|does not exist|unknown|missing|\b404\b|no tool is called"),
        ("exists already", r"already exists|exists already|duplicate|conflict|\b409\b"),
        ("wrong arguments", r"invalid|argument|parameter|required|expected|malformed|schema|\b4(?:00|22)\b"),
        ("cannot be reached", r"connect|unreachable|refused|network|resolve|\bdns\b|\b50[0-9]\b|unavailable"),
    )
)


def about(value: JSON, *, names_fields: bool = True) -> str:
    """The kind and size of a value, without its content.

    >>> about("secret"), about([1, 2]), about({"name": "Ada", "not a name!": 1})
    ('a text of 6 characters', 'a list of 2', 'an object with 2 fields: name')
    """
    match value:
        case str():
            return f"a text of {len(value)} characters"
        case list():
            first = about(value[0], names_fields=names_fields) if value and isinstance(value[0], dict) else ""
            return f"a list of {len(value)}" + (f", each {first}" if first else "")
        case dict():
            plain = [key for key in value if _FIELD.fullmatch(key)][:_MOST_FIELDS] if names_fields else []
            return f"an object with {len(value)} fields" + (f": {', '.join(plain)}" if plain else "")
        case bool():
            return "true or false"
        case None:
            return "null"
        case _:
            return "a number"


def failure_kind(error: str) -> str:
    """The kind of a failure, without the content of its message.

    >>> failure_kind("HTTP 404: /home/ada/secret.txt"), failure_kind("boom")
    ('not found', 'failed')
    """
    return next((kind for kind, pattern in _KINDS if pattern.search(error[:_LOOKED_AT])), "failed")


_LOOKED_AT = 2_000


def is_shared(name: str, shared: Shared) -> bool:
    """Whether a model may see the value of a variable."""
    return shared(name) if callable(shared) else name in shared


def described(
    variables: Mapping[str, JSON], shared: Shared = (), odd: Collection[str] = ()
) -> tuple[dict[str, str], tuple[Cut, ...]]:
    """A description of each variable, or its value as JSON if that is shared; and what was cut.

    For the `odd` ones not even field names are given, because whoever produced them chose the names.

    >>> described({"a": "hush", "b": [1]}, {"b"})
    ({'a': 'a text of 4 characters', 'b': '[1]'}, ())
    >>> described({"a": {"send_it": 1}}, odd={"a"})[0]
    {'a': 'an object with 1 fields'}
    """
    words: dict[str, str] = {}
    cuts: list[Cut] = []
    for name, value in variables.items():
        if not is_shared(name, shared):
            words[name] = about(value, names_fields=name not in odd)
            continue
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > MAX_VALUE:
            cuts.append(Cut(f"${name} in the prompt", MAX_VALUE, len(text), "characters"))
            text = f"{text[:MAX_VALUE]}… (cut here: {len(text)} characters in all)"
        words[name] = text
    return words, tuple(cuts)
