"""Lists the side effects that a branched run may have, and asks for confirmation.

Input: the new run, not recorded yet. Output: the list on standard error, and whether to continue.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.apps.cli.terminal import is_terminal
from callsheet.apps.rendering.values import without_controls

if TYPE_CHECKING:
    from callsheet.apps.masking import Masker
    from callsheet.runtime.forking import Forking

sure = click.option("--yes", "assume_yes", is_flag=True, help="Do not ask for confirmation of side effects.")


def is_confirmed(forking: Forking, masker: Masker, *, assume_yes: bool, as_json: bool) -> bool:
    """Whether the new run may be executed.

    The calls with side effects that it will make, or may make, are printed, masked by `masker`. If there are
    any, the user is asked; without a terminal, `--yes` is required.
    """
    effects = forking.effects
    if not as_json:
        to_stderr("\n".join(masker.value(_lines(forking))))
    if assume_yes or not effects:
        return True
    if not as_json and _is_interactive():
        return click.confirm("Continue?", err=True)
    if as_json:
        print_json(
            {
                "run_id": None,
                "status": "not started",
                "parent": {"run_id": forking.parent.run_id, "event": forking.at},
                "effects": masker.value([effect.to_json() for effect in effects]),
                "needs": "--yes",
            }
        )
    else:
        to_stderr("no terminal for a confirmation: nothing was done; use --yes to continue")
    return False


def _is_interactive() -> bool:
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def _lines(forking: Forking) -> list[str]:
    parent = f"run {forking.parent.run_id} up to event {forking.at} of {forking.parent.events}"
    if not forking.effects:
        ended = " and ends there" if forking.folded.machine.result is not None else ""
        return [f"the new run keeps {parent}{ended}; its remaining steps have no side effects"]
    lines = [f"the new run keeps {parent}; its remaining steps may have side effects:"]
    for effect in forking.effects:
        lines += [f"  {effect.title}", *(f"      {line}" for line in effect.lines())]
    return [without_controls(line) for line in lines]
