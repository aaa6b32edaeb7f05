"""Dataclasses whose `repr` masks secrets, for logs, notebooks and failed assertions.

In: a dataclass, and what is known to be secret in it. Out: its masked `repr`; its values are unchanged.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple, TypeVar, cast

from callsheet.sealing.finder import Finder
from callsheet.sealing.masking import hidden, mask_text, mask_value
from callsheet.sealing.shapes import Shapes


class MaskedFields(NamedTuple):
    """What to mask in an object: what the finder finds, and the whole values under these names.

    The names are those of fields, and of keys in fields that are objects.
    """

    finder: Finder
    names: frozenset[str] = frozenset()


class MaskedRepr:
    """Base of a dataclass with a masked `repr`; by default, what looks like a credential is masked."""

    __slots__ = ("_hides",)
    _hides: MaskedFields

    def __repr__(self) -> str:
        hides: MaskedFields = getattr(self, "_hides", None) or _looks()
        parts = (
            f"{field.name}={_shown(field.name, getattr(self, field.name), hides)}"
            for field in fields(cast("Any", self))
            if field.repr
        )
        return f"{type(self).__qualname__}({', '.join(parts)})"


_V = TypeVar("_V", bound=MaskedRepr)


def masked(data: _V, hides: MaskedFields) -> _V:
    """The same object, with these secrets masked in its `repr`."""
    object.__setattr__(data, "_hides", hides)
    return data


def _looks() -> MaskedFields:
    return MaskedFields(Finder(shapes=Shapes()))


def _shown(name: str, value: Any, hides: MaskedFields) -> str:
    if name in hides.names:
        return repr(hidden(value))
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        value = {key: hidden(item) if key in hides.names else item for key, item in entries}
    return mask_text(repr(mask_value(value, hides.finder)), hides.finder)
