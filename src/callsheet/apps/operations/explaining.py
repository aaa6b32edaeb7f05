"""The page of a diagnostic code or of an LCTL rule."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from callsheet.diagnostics import CODES, CallsheetError, did_you_mean
from callsheet.diagnostics import explain as page_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code with its title and its page, which is Markdown."""

    code: str
    title: str
    page: str

    def to_json(self) -> dict[str, Any]:
        """The explanation as data."""
        return asdict(self)


def explain_code(code: str) -> Explanation:
    """The page of a code, case-insensitive; raises CallsheetError (CFG015) if there is none.

    >>> explain_code("ltp012").title
    'an unknown action'
    """
    page, entry = page_of(code), CODES.get(code.upper())
    if page is not None and entry is not None:
        return Explanation(entry.name, entry.title, page)
    from callsheet.trace.lctl.findings import rule_page  # noqa: PLC0415 - for rules of LCTL alone
    from callsheet.trace.lctl.rules.table import RULES  # noqa: PLC0415 - as above

    rule = RULES.get(code.upper())
    if rule is not None:
        return Explanation(rule.id, rule.title, rule_page(rule))
    near = did_you_mean(code, CODES)
    hint = f"did you mean {' or '.join(near)}?" if near else "codes look like LTP012, CHK001, CFG110"
    raise CallsheetError.single("CFG015", f"there is no diagnostic code {code[:40]!r}", help=hint)
