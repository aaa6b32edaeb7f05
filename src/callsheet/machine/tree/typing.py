"""Checks values against the types of version 2: inputs, casts and results of sub-plans (decision 10).

A cast checks, by the same rule as the inputs of a plan (`ir/inputs.read_value`). Of the result of a tool it
also reads JSON text, where a list, a dict or JSON is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callsheet.ir.inputs import NotOfType, read_value
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, Record, Type
from callsheet.machine.expressions.values import FailureRecord

Checked = tuple[Any, str]
"""A value of the type, and what is wrong otherwise."""


def conformed(value: Any, of: Type, named: Mapping[str, Record], *, reads_text: bool = False) -> Checked:
    """The value as one of a type, and "", or the value and why it is none.

    With `reads_text`, as for the result of a tool, JSON text is read where the type is none of texts.

    >>> conformed("[1]", ListOf(Basic.INT), {}, reads_text=True), conformed(2.0, Basic.INT, {})
    (([1], ''), (2, ''))
    >>> conformed({"id": "x"}, Record((("id", Basic.INT),)), {})[1]
    ".id: an int is needed, not the string 'x'"
    """
    if isinstance(value, FailureRecord):
        return value, f"{value.get('step')} has failed"
    if reads_text and isinstance(value, str):
        inner = of.of if isinstance(of, Maybe) else of
        if isinstance(inner, ListOf | DictOf | Named | Record) or inner is Basic.JSON:
            value = _read(value)
    try:
        return read_value(of, value, named, in_run=True), ""
    except NotOfType as error:
        return value, f"{error.path}: {error}" if error.path else str(error)


def _read(text: str) -> Any:
    """What JSON text says, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
