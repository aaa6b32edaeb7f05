"""Lists the side effects that a branched run may have, and asks for confirmation.

Input: the new run, not recorded yet. Output: the list on standard error, and whether to continue.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli.output import print_json, to_stderr
from callsheet.apps.cli.terminal import is_terminal
from callsheet.apps.operations.effects import effect_json
from callsheet.apps.rendering.values import preview, without_controls

if TYPE_CHECKING:
    from callsheet.runtime.effects_ahead import AheadCall
    from callsheet.runtime.forking import Forking

_MAX_CALLS = 5
_ARGUMENTS = 100

sure = click.option("--yes", "assume_yes", is_flag=True, help="Do not ask for confirmation of side effects.")


def is_confirmed(forking: Forking, *, assume_yes: bool, as_json: bool) -> bool:
    """Whether the new run may be executed.

    Its possible side effects are printed. If there are any, the user is asked; without a terminal, `--yes` is
    required.
    """
    effects = forking.effects
    if not as_json:
        to_stderr("\n".join(_lines(forking)))
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
                "effects": [effect_json(effect) for effect in effects],
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
    width = max(len(effect.step) for effect in forking.effects)
    for effect in forking.effects:
        inner = f", may call {', '.join('@' + tool for tool in effect.may_call)}" if effect.may_call else ""
        name = effect.tool if effect.tool == "RE-PLAN" else f"@{effect.tool}"
        lines.append(f"  {effect.step:<{width}}  {name} ({effect.effect}{inner})")
        parts = [_call(call, forking.parent.run_id) for call in effect.calls[:_MAX_CALLS]]
        if len(effect.calls) > _MAX_CALLS:
            parts.append(f"and {len(effect.calls) - _MAX_CALLS} more calls")
        parts = parts or ["if the run reaches it; its arguments are not known yet"]
        lines += [f"  {'':<{width}}  {line}" for line in parts]
    return [without_controls(line) for line in lines]


def _call(call: AheadCall, parent: str) -> str:
    args = preview(", ".join(f"{name}={preview(value, 60)}" for name, value in call.args.items()), _ARGUMENTS)
    if call.in_doubt:
        return f"in doubt, it may have taken place: {args}"
    if call.event is not None:
        return f"again, as at event {call.event} of {parent}: {args}"
    return f"next: {args}"
