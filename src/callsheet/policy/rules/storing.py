"""STORE_LABEL and SANDBOX obligations: stored data keeps its label, code runs without network."""

from __future__ import annotations

from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.builtins import PathUse, Reach, Traits
from callsheet.policy.calls import Argument, CallView, Duty
from callsheet.policy.paths import PathRefused, workspace_path
from callsheet.policy.rules.base import Notes, OfLabels, Setting, flowing, of_name
from callsheet.policy.rules.files import FILE_NAMES, filing_of, keeps_files, moved


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """The obligation to store a label, or to run code without network unless the policy allows it."""
    if traits is None:
        return None
    if traits.runs_code and not setting.policy.exec_network:

        def sandboxed(call: CallView, notes: Notes) -> None:
            notes.oblige(Duty.SANDBOX, call)

        return OfLabels(sandboxed, only_obliges=True)
    if keeps_files(tool, traits):

        def filed(call: CallView, notes: Notes) -> None:
            filing = filing_of(call)
            label = filing.label.join(moved(setting, call)).join(call.pc)
            for target in filing.writes:
                own = _label_at(setting, target)
                notes.oblige(Duty.STORE_LABEL, call, str(label), weakens=not label.as_told().flows_to(own))

        return OfLabels(filed, sees=tuple(sorted(FILE_NAMES)), only_obliges=True)
    stores = traits.reach is Reach.MEMORY or (traits.path is not None and traits.path_use is PathUse.WRITE)
    if not stores:
        return None

    def stored(call: CallView, notes: Notes) -> None:
        label = flowing(call).join(call.pc)
        own = _label_of_place(setting, traits, call)
        notes.oblige(Duty.STORE_LABEL, call, str(label), weakens=not label.as_told().flows_to(own))

    return OfLabels(stored, sees=() if traits.path is None else (traits.path,), only_obliges=True)


def _label_of_place(setting: Setting, traits: Traits, call: CallView) -> Label:
    """The label that a later run gives the place if none was stored."""
    if traits.reach is Reach.MEMORY:
        return setting.policy.memory
    argument = of_name(call, traits.path or "")
    return LITERAL if argument is None else _label_at(setting, argument)


def _label_at(setting: Setting, argument: Argument) -> Label:
    """The label that the policy gives the file; the lowest one if the path is unknown or outside."""
    if argument.text is None:
        return LITERAL
    try:
        return setting.sources.file(workspace_path(argument.text), on_host=False)
    except PathRefused:
        return LITERAL
