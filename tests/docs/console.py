"""Runs the files and console blocks of a Markdown page, and compares their output.

A fenced block with `title="NAME"` is a file. A `console` block holds commands behind `$ ` and what each
prints; `…` stands for any characters of a line, alone on a line for any lines, `[exit status N]` for the
status if it is not 0, and `[killed]` for a process that was killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import forked

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader creates."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command that the reader types, and its printed lines."""

    text: str
    printed: tuple[str, ...]


def parts_of(page: str) -> Iterator[File | Command]:
    """The files and commands of a page, in their order."""
    for kind, rest, body in _FENCE.findall(page):
        if title := _TITLE.search(rest):
            yield File(title[1], body)
        elif kind == "console":
            for block in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, *printed = block.splitlines()
                yield Command(command, tuple(printed))


def environment(home: Path, *, forks: bool = True, also_of_clients: bool = False) -> dict[str, str]:
    """The environment of a reader who has just installed callsheet; with `forks`, it starts in a moment."""
    own = home / "bin"
    if forks:
        forked.programs(own, also_of_clients=also_of_clients)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CALLSHEET_")}
    path = os.pathsep.join([str(own), str(_BIN), kept.get("PATH", "")])
    return {**kept, "HOME": str(home), "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"} | {
        f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE", "STATE")
    }


def printed_by(command: str, folder: Path, env: dict[str, str]) -> list[str]:
    """The output for a reader who types this: stdout and stderr, and how it ended."""
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1; {command}"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [
        line for line in done.stdout.splitlines() if not line.endswith("Killed                  " + command)
    ]
    if done.returncode in (-9, 137):
        return [*lines, "[killed]"]
    return [*lines, f"[exit status {done.returncode}]"] if done.returncode else lines


def as_shown(expected: tuple[str, ...], seen: list[str]) -> bool:
    """Whether the lines match the page."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in seen)) is not None
