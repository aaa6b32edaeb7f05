"""No interface assembles a run: what it takes is imported by the run service alone."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.imported import imported

import callsheet

APPS = Path(callsheet.__file__).parent / "apps"
PIECES = {
    "callsheet.runtime.runs": {
        "begin_run",
        "create_run",
        "enlist_run",
        "resume_run",
        "run_unrecorded",
        "start_run",
    },
    "callsheet.runtime.adopting": {"adopt_run"},
    "callsheet.runtime.launch": {"Launch", "start_of", "check_pins"},
    "callsheet.runtime.forking": {"drafted", "fork", "rerun", "conclude"},
    "callsheet.runtime.cancelling": {"cancel_run", "cancel_now"},
    "callsheet.runtime.pausing": {"pause_run", "pause_now"},
    "callsheet.runtime.doubt": {"decide_calls"},
}
"""What a run is assembled from, by module."""
CHECKS = {
    "check_plan",
    "prove",
    "facts_of",
    "pins_of",
    "servers_of",
    "wrong_tools",
    "check_tools",
    "check_present",
}
"""What the folders that start and continue runs leave to the service; others only look at plans with it."""
STARTING = ("hosting", "cli", "gate", "mcp", "http", "chat", "web")
LOOKING = {"plan_texts.py", "debugger.py"}
"""Modules of these folders that show plans and never run them."""


def assembled(path: Path) -> list[str]:
    """The pieces of a run that a module under `apps` imports."""
    names = [*imported(path.read_text(encoding="utf-8"))]
    wrong = [f"{module}.{name}" for module, name in names if name in PIECES.get(module, ())]
    wrong += [f"{module}.{name}" for module, name in names if f"{module}.{name}" in PIECES]
    if path.relative_to(APPS).parts[0] in STARTING and path.name not in LOOKING:
        wrong += [f"{module}.{name}" for module, name in names if name in CHECKS]
    return wrong


def test_no_interface_assembles_a_run() -> None:
    found = {str(path.relative_to(APPS)): assembled(path) for path in APPS.rglob("*.py")}
    assert {name: pieces for name, pieces in found.items() if pieces} == {}


def test_pieces_are_there() -> None:
    for module, names in PIECES.items():
        source = (APPS.parent.parent / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        defined = {node.name for node in ast.walk(ast.parse(source)) if hasattr(node, "name")}  # pyright: ignore
        assert names <= defined, module
