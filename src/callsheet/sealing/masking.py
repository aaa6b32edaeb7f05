"""Replaces secrets by `[secret]` in texts and values that are shown or logged.

In: texts and values. Out: the same without their secrets.
"""

from __future__ import annotations

from typing import Any, cast

from callsheet.sealing.finder import Finder
from callsheet.sealing.placeholders import MASK, is_nothing


def mask_text(text: str, finder: Finder) -> str:
    """The text with each secret replaced by the mask.

    >>> from callsheet.sealing.known import Known
    >>> mask_text("token=abcdefgh!", Finder(Known.of(["abcdefgh"], "declared")))
    'token=[secret]!'
    """
    shown, done = "", 0
    for start, end, _ in finder.spans(text):
        shown += text[done:start] + MASK
        done = end
    return shown + text[done:] if shown or done else text


def mask_value(value: Any, finder: Finder) -> Any:
    """The value with every text in it masked, including the keys of objects."""
    if isinstance(value, str):
        return mask_text(value, finder)
    if isinstance(value, list):
        return [mask_value(item, finder) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return {mask_text(name, finder): _entry(name, item, finder) for name, item in entries}
    return value


def _entry(name: str, value: Any, finder: Finder) -> Any:
    if isinstance(value, str) and finder.whole(name, value) is not None:
        return MASK
    return mask_value(value, finder)


def hidden(value: Any) -> Any:
    """The mask, in place of a value that is secret as a whole; empty values stay."""
    return value if is_nothing(value) else MASK
