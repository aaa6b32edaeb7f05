"""Resolves secrets by name: a worker substitutes them into a call and removes them from its outcome.

In: data of a call or of its outcome. Out: the same with placeholders replaced by values of the worker's
environment, or the reverse. So a history contains no secret, and a worker provides only the variables it was
told to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from callsheet.sealing.known import SHORTEST, forms_of
from callsheet.sealing.placeholders import MASK

_SHORTEST_FORM = 8


class NotGiven(Exception):
    """A secret that this worker does not provide; the message says why."""


class NamedSecrets:
    """The secrets of one run as a worker resolves them: variables by placeholder text.

    `offered` are the variables that it may provide, out of `environ`.
    """

    def __init__(
        self, secrets: Mapping[str, str], offered: Collection[str], environ: Mapping[str, str]
    ) -> None:
        self._secrets = secrets
        self._offered = offered
        self._values = {
            text: environ[variable]
            for text, variable in secrets.items()
            if variable in offered and environ.get(variable)
        }

    def put_in(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data with secrets substituted; raises NotGiven."""
        if not self._secrets:
            return data
        encoded = json.dumps(data, ensure_ascii=False)
        for text, variable in self._secrets.items():
            if text in encoded and text not in self._values:
                raise NotGiven(self._why_not(variable))
        return _changed(data, self._with)

    def take_out(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data with secrets replaced by their placeholders, and encoded forms of them masked."""
        has_long_value = any(len(value) >= SHORTEST for value in self._values.values())
        return _changed(data, self._without) if has_long_value else data

    def _why_not(self, variable: str) -> str:
        if variable not in self._offered:
            return f"this worker is not allowed to pass {variable} to runs: start it with --secret {variable}"
        return f"there is no variable {variable} in the environment of this worker"

    def _with(self, text: str) -> str:
        for place, value in self._values.items():
            text = text.replace(place, value)
        return text

    def _without(self, text: str) -> str:
        for place, value in self._values.items():
            if len(value) >= SHORTEST:
                text = text.replace(value, place)
                for form in forms_of(value):
                    if len(form) >= _SHORTEST_FORM and form in text:
                        text = text.replace(form, MASK)
        return text


def _changed(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, list):
        return [_changed(item, change) for item in cast("list[Any]", data)]
    if isinstance(data, dict):
        entries = cast("dict[str, Any]", data).items()
        return {change(name): _changed(item, change) for name, item in entries}
    return data
