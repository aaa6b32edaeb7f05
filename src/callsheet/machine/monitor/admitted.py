"""The record of a call that a policy has admitted, kept until the call has its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import Label, read_label

Origins: TypeAlias = "tuple[str, ...]"
"""The steps that a value was made by, in order; only the last ones if they are many."""
NOTHING_SHOWN: Mapping[str, JSON] = MappingProxyType({})


class Admitted(NamedTuple):
    """An admitted call: the labels of its result and of all data it sends, and the origins of its result.

    `reasons` say why a person must approve it first (empty if nobody must), `shown` is what that person is
    told about each argument.
    """

    result: Label
    sent: Label
    origins: Origins
    reasons: tuple[str, ...] = ()
    shown: Mapping[str, JSON] = NOTHING_SHOWN

    def to_json(self) -> list[Any]:
        """The record as JSON data."""
        row = [str(self.result), str(self.sent), list(self.origins)]
        return [*row, list(self.reasons), dict(self.shown)] if self.reasons or self.shown else row

    @classmethod
    def from_json(cls, data: list[Any]) -> Admitted:
        """The record from JSON data; raises ValueError or TypeError if it is malformed."""
        result, sent, origins, *asked = data
        reasons, shown = asked or ((), NOTHING_SHOWN)
        return cls(read_label(result), read_label(sent), tuple(origins), tuple(reasons), shown)
