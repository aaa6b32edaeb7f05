"""Secrets by name: a worker puts them into a call where a text stands for them, and takes them out again.

In: data of a call or of its outcome. Out: the same with the values of variables of the worker's
environment, or without them. So a history holds no secret, and a worker gives only what it was told to give.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from callsheet.sealing.forms import forms_of
from callsheet.sealing.known import SHORTEST
from callsheet.sealing.placeholders import MASK

_SHORTEST_FORM = 8


class NotGiven(Exception):
    """A secret that this worker does not give; the text says why."""


class Named:
    """The secrets of one run, as a worker resolves them: variables by the texts in their place.

    `offered` are those that it may give, out of `environ`.
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
        """The data with the secrets; raises NotGiven."""
        if not self._secrets:
            return data
        said = json.dumps(data, ensure_ascii=False)
        for text, variable in self._secrets.items():
            if text in said and text not in self._values:
                raise NotGiven(self._why_not(variable))
        return _changed(data, self._with)

    def take_out(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data with the texts in the place of the secrets, also where they stand encoded."""
        held = any(len(value) >= SHORTEST for value in self._values.values())
        return _changed(data, self._without) if held else data

    def _why_not(self, variable: str) -> str:
        if variable not in self._offered:
            return f"this worker may not give {variable} to runs: start it with --secret {variable}"
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
