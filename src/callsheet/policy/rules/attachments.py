"""Files that a call sends along by their paths reach only those who may read them."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.policy.builtins import BUILTINS, Reach, Traits
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.paths import PathRefused, workspace_path
from callsheet.policy.rules.base import Notes, OfLabels, Setting, leaves, shown
from callsheet.policy.rules.receivers import receivers

ATTACHMENTS = ("attachment", "attachments", "attach", "attached", "upload", "uploads")
"""Arguments that name files to send along."""


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """FLOW for a file of the workspace, named in the plan, whose label its receivers may not have.

    It is that which the policy gives the path; a path that leads nowhere in the workspace is the tool's own.
    """
    if traits is None or tool in BUILTINS or traits.reach not in (Reach.WORLD, Reach.RECIPIENT):
        return None
    held = traits

    def check(call: CallView, notes: Notes) -> None:
        for name, path in _attached(call):
            label = setting.sources.file(path)
            for who, audiences in receivers(setting, held, call):
                if not label.may_reach(audiences):
                    notes.object(
                        Rule.FLOW,
                        f"{shown(label)} of {path} in {name} of @{tool} would reach {who}",
                        name,
                        help="attach a file that the policy calls public, or send it to somebody it trusts",
                        reaches=who,
                    )
                    return

    return OfLabels(check, sees=ATTACHMENTS)


def _attached(call: CallView) -> Iterator[tuple[str, str]]:
    """The arguments that name files to send along, and the paths in them that are known."""
    for argument in call.arguments:
        if argument.name.casefold() in ATTACHMENTS:
            for leaf in leaves(argument):
                try:
                    if leaf.text:
                        yield argument.name, workspace_path(leaf.text)
                except PathRefused:
                    continue
