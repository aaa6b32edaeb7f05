"""Parses the text of a configuration file, and reports errors at their position.

In: a text with its name. Out: data, or CallsheetError (CFG016). Errors show a line only up to the key,
without quoted texts before it, because the value of a key may be a password.
"""

from __future__ import annotations

import re
from typing import Any

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.ir.strict_toml import TomlError, read_toml
from callsheet.policy.toml_spans import Path, key_spans, place_of

_TEXT = re.compile(r"\"[^\"]*\"|'[^']*'")


def read_table(source: Source) -> dict[str, Any]:
    """The table in a configuration file; raises CallsheetError (CFG016)."""
    try:
        return read_toml(source.text)
    except TomlError as error:
        span = Span(error.offset, error.offset + 1)
        raise _error("CFG016", source, span, f"this is not TOML: {error}", None) from None


def wrong_key(
    source: Source, path: Path, message: str, hint: str | None, code: str = "CFG016"
) -> CallsheetError:
    """An error at the key with this path, or at its nearest parent that the text contains."""
    span = place_of(source.text, key_spans(source.text), path)
    return _error(code, source, span, message, hint)


def _error(code: str, source: Source, span: Span | None, message: str, hint: str | None) -> CallsheetError:
    shown = source if span is None else Source(source.name, _up_to(source.text, span))
    return CallsheetError([Diagnostic(code, Severity.ERROR, message, span, hint)], shown)


def _up_to(text: str, span: Span) -> str:
    """The text up to the end of the span, without quoted texts earlier on its line."""
    line = text.rfind("\n", 0, span.start) + 1
    hidden = _TEXT.sub(lambda found: "…" * len(found[0]), text[line : span.start])
    return text[:line] + hidden + text[span.start : span.end]
