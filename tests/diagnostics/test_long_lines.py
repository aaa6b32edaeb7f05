"""An error in a line of megabytes is shown with its surroundings only."""

from __future__ import annotations

from callsheet.diagnostics import Diagnostic, Severity, Source, Span, render, render_all
from growth import takes_linear_time


def shown(text: str) -> str:
    places = range(0, 64 * len(text), 256)
    found = [Diagnostic("CHK001", Severity.ERROR, "wrong", Span(at, at + 4)) for at in places]
    return render_all(found, Source("p.ltp", f"{64 * text}\n"))


def test_diagnostics_of_long_line_take_linear_time() -> None:
    assert takes_linear_time(shown, "{}", "abcd" * 8)


def test_error_in_long_line_is_excerpted_above_caret() -> None:
    text = Source("p.ltp", f"first\r\n{'x' * 500_000}WRONG{'y' * 500_000}\r\nlast")
    at = text.text.index("WRONG")
    lines = render(Diagnostic("CHK001", Severity.ERROR, "wrong", Span(at, at + 5)), text).splitlines()
    assert lines[0] == "p.ltp:2:500001: error CHK001: wrong"
    assert lines[1][lines[2].index("^") :].startswith("WRONG")
    assert lines[2].split() == ["|", "^^^^^"]
    assert len(lines[1]) < 200
    assert text.line(1) == "first"
    assert text.line(3) == "last"
