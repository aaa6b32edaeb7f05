"""The click parameter type of decisions about calls in doubt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.runtime.doubt import Resolution

DECISIONS = "retry|skip|fail|value=JSON"


class ResolutionType(click.ParamType[Any]):
    """A decision: `retry`, `skip`, `fail` or `value=JSON`."""

    name = DECISIONS

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Resolution:
        """The decision; fails with a usage error for any other text."""
        from callsheet.machine import Decision, TookPlace  # noqa: PLC0415 - not for --help

        if not isinstance(value, str):
            return value
        word, equals, json_text = value.partition("=")
        if word == "value" and equals:
            return TookPlace(_json(json_text))
        if value not in list(Decision):
            self.fail(f"{value!r} is not a decision; write one of {DECISIONS}", param, ctx)
        return Decision(value)


def _json(json_text: str) -> Any:
    try:
        return json.loads(json_text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise CallsheetError.single(
            "CFG011",
            f"value={json_text[:60]} is not JSON",
            help='quote a text: \'value="paid"\'; other values: null, true, 3, [1, 2], {"id": 7}',
        ) from None


def _refuse(name: str) -> None:
    raise ValueError(name)
