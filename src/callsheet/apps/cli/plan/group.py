"""The group `callsheet plan` and its table of commands, which are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.plan"
_MAKE, _USE, _COMPARE = "Make and keep", "Use", "Compare"

COMMANDS: dict[str, CommandEntry] = {
    "create": CommandEntry(f"{_PACKAGE}.create:create", "Have a model make a plan for a goal.", _MAKE),
    "save": CommandEntry(f"{_PACKAGE}.manage:save", "Put a plan into the library.", _MAKE),
    "export": CommandEntry(
        f"{_PACKAGE}.transfer:export", "Write plans with their versions into a file.", _MAKE
    ),
    "import": CommandEntry(
        f"{_PACKAGE}.transfer:import_", "Take plans from a file that was exported.", _MAKE
    ),
    "rename": CommandEntry(f"{_PACKAGE}.manage:rename", "Give a plan another id.", _MAKE),
    "delete": CommandEntry(f"{_PACKAGE}.manage:delete", "Remove plans from the library.", _MAKE),
    "list": CommandEntry(f"{_PACKAGE}.show:list_plans", "List the plans of the library.", _USE),
    "show": CommandEntry(f"{_PACKAGE}.show:show", "Draw a plan, or print its text.", _USE),
    "run": CommandEntry(f"{_PACKAGE}.run:run", "Check a plan and run it on real tools.", _USE),
    "resume": CommandEntry(f"{_PACKAGE}.run:resume", "Carry on the newest run of a plan.", _USE),
    "diff": CommandEntry(f"{_PACKAGE}.diff:diff", "Say what differs between two plans.", _COMPARE),
}


@click.group("plan", cls=LazyCommands, entries=COMMANDS, epilog=None)
def plan() -> None:
    """Make plans, keep them in a library under short ids, run and compare them."""
