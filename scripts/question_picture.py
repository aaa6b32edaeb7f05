"""Draws a question of the gate as a client shows it: `docs/gate-question.svg`, from the question's own text.

A test compares the picture with the question that a gate asks now. Without the first line of the question,
which has the run's id and the time.
"""

from __future__ import annotations

from html import escape

_LINE, _LEFT, _WIDTH = 22, 28, 660


def picture(message: str) -> str:
    """The picture of a question as SVG.

    >>> picture("20260730 S1\\n  may @SEND be called?").count("<text")
    4
    """
    lines = [line.removeprefix("  ") for line in message.splitlines()[1:]]
    height = 128 + _LINE * len(lines)
    rows = [_row(line, 74 + _LINE * number) for number, line in enumerate(lines)]
    bottom = 84 + _LINE * len(lines)
    frame = f'width="{_WIDTH - 2}" height="{height - 2}" rx="10" fill="#fff" stroke="#8a94a6"'
    head = f'<text x="{_LEFT}" y="36" font-family="sans-serif" font-weight="bold">'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'font-family="monospace" font-size="14">',
            f"<title>{escape(lines[0])}</title>",
            f'<rect x="1" y="1" {frame}/>',
            f"{head}callsheet-gate asks</text>",
            *rows,
            _button(_LEFT, bottom, 250, "Call it with exactly this", "#1f6f43", "#fff"),
            _button(_LEFT + 266, bottom, 100, "Decline", "#fff", "#333"),
            "</svg>\n",
        )
    )


def _row(line: str, y: int) -> str:
    indent = len(line) - len(line.lstrip())
    weight = ' font-weight="bold"' if line.startswith("may ") else ""
    colour = "#a33" if line.startswith("because ") else "#222"
    place = _LEFT + 9 * indent
    return f'<text x="{place}" y="{y}" fill="{colour}"{weight}>{escape(line.strip())}</text>'


def _button(x: int, y: int, width: int, text: str, fill: str, colour: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="30" rx="6" fill="{fill}" stroke="#8a94a6"/>'
        f'<text x="{x + width // 2}" y="{y + 20}" text-anchor="middle" font-family="sans-serif" '
        f'fill="{colour}">{escape(text)}</text>'
    )
