"""Writes the TextMate grammar of LTP text from the table of rules: `python -m scripts.textmate`."""

from __future__ import annotations

import json
from pathlib import Path

from callsheet.views.highlight.rules import textmate_grammar

PLACE = Path(__file__).parent.parent / "editors" / "vscode" / "syntaxes" / "ltp.tmLanguage.json"

if __name__ == "__main__":
    PLACE.write_text(json.dumps(textmate_grammar(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
