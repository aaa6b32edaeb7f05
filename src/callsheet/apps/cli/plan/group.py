"""The group `callsheet plan` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import Entry, LazyCommands

_HERE = "callsheet.apps.cli.plan"
_MAKE, _USE, _COMPARE = "Make and keep", "Use", "Compare"

COMMANDS: dict[str, Entry] = {
    "create": Entry(f"{_HERE}.create:create", "Have a model make a plan for a goal.", _MAKE),
    "save": Entry(f"{_HERE}.keep:save", "Put a plan into the library.", _MAKE),
    "export": Entry(f"{_HERE}.move:export", "Write plans with their versions into a file.", _MAKE),
    "import": Entry(f"{_HERE}.move:import_", "Take plans from a file that was exported.", _MAKE),
    "rename": Entry(f"{_HERE}.keep:rename", "Give a plan another id.", _MAKE),
    "delete": Entry(f"{_HERE}.keep:delete", "Remove plans from the library.", _MAKE),
    "list": Entry(f"{_HERE}.look:list_plans", "List the plans of the library.", _USE),
    "show": Entry(f"{_HERE}.look:show", "Draw a plan, or print its text.", _USE),
    "run": Entry(f"{_HERE}.use:run", "Check a plan and run it on real tools.", _USE),
    "resume": Entry(f"{_HERE}.use:resume", "Carry on the newest run of a plan.", _USE),
    "diff": Entry(f"{_HERE}.diff:diff", "Say what differs between two plans.", _COMPARE),
}


@click.group("plan", cls=LazyCommands, entries=COMMANDS, epilog=None)
def plan() -> None:
    """Make plans, keep them in a library under short ids, run and compare them."""
