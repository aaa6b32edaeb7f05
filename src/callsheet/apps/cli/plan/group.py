"""The command group `callsheet plan`; its commands are imported on demand."""

from __future__ import annotations

import click

from callsheet.apps.cli.group import CommandEntry, LazyCommands

_PACKAGE = "callsheet.apps.cli.plan"
_MAKE, _USE, _COMPARE = "Create and store", "Use", "Compare"

COMMANDS: dict[str, CommandEntry] = {
    "create": CommandEntry(f"{_PACKAGE}.library:create", "Compile a goal into a plan with a model.", _MAKE),
    "save": CommandEntry(f"{_PACKAGE}.library:save", "Save a plan in the library.", _MAKE),
    "export": CommandEntry(f"{_PACKAGE}.library:export", "Export plans with all versions to a file.", _MAKE),
    "import": CommandEntry(f"{_PACKAGE}.library:import_", "Import plans from an exported file.", _MAKE),
    "rename": CommandEntry(f"{_PACKAGE}.library:rename", "Rename a plan.", _MAKE),
    "delete": CommandEntry(f"{_PACKAGE}.library:delete", "Delete plans from the library.", _MAKE),
    "list": CommandEntry(f"{_PACKAGE}.library:list_plans", "List the plans of the library.", _USE),
    "show": CommandEntry(f"{_PACKAGE}.library:show", "Draw a plan, or print its text.", _USE),
    "run": CommandEntry(f"{_PACKAGE}.run:run", "Check a plan and run it.", _USE),
    "resume": CommandEntry(f"{_PACKAGE}.run:resume", "Continue the newest run of a plan.", _USE),
    "diff": CommandEntry(f"{_PACKAGE}.diff:diff", "Compare two plans.", _COMPARE),
    "review": CommandEntry(f"{_PACKAGE}.review:review", "Tell what a branch changes in plans.", _COMPARE),
}


@click.group("plan", cls=LazyCommands, entries=COMMANDS, epilog=None)
def plan() -> None:
    """Create plans, store them in a library under short ids, run and compare them."""
