"""What is known of a call that a policy has let pass, until it has its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import Label, read_label

Origins: TypeAlias = "tuple[str, ...]"
"""The steps that a value was made by, in their order; the last ones, where they are many."""
NOTHING_SHOWN: Mapping[str, JSON] = MappingProxyType({})


class Admitted(NamedTuple):
    """A call that may leave: the label of its result, where that comes from, and what is asked first.

    `sent` is the label of all that the call takes along; `reasons` are why a person has to say yes, and
    `shown` is what that person is told of each argument.
    """

    result: Label
    sent: Label
    origins: Origins
    reasons: tuple[str, ...] = ()
    shown: Mapping[str, JSON] = NOTHING_SHOWN

    def to_json(self) -> list[Any]:
        """All of it as JSON data."""
        told = [str(self.result), str(self.sent), list(self.origins)]
        return [*told, list(self.reasons), dict(self.shown)] if self.reasons or self.shown else told

    @classmethod
    def from_json(cls, data: list[Any]) -> Admitted:
        """What JSON data tells of; raises ValueError or TypeError for other data."""
        result, sent, origins, *asked = data
        reasons, shown = asked or ((), NOTHING_SHOWN)
        return cls(read_label(result), read_label(sent), tuple(origins), tuple(reasons), shown)
