"""EXECUTABLE: untrusted content is not written to a file that some program executes."""

from __future__ import annotations

from callsheet.ir.labels import Label, join
from callsheet.policy.builtins import PathUse, Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.rules.base import Notes, OfLabels, Setting, known, of_name
from callsheet.policy.runnable import is_executable


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """EXECUTABLE for untrusted content in a file that a shell, build tool, editor or system executes."""
    if traits is None or traits.path is None or traits.path_use is not PathUse.WRITE:
        return None
    known_traits, name = traits, traits.path

    def check(call: CallView, notes: Notes) -> None:
        argument = of_name(call, name)
        if argument is None or not content_label(call, known_traits).untrusted:
            return
        if may_be_executed(argument):
            notes.object(
                Rule.EXECUTABLE,
                f"@{tool} would put untrusted content where it is executed",
                name,
                help="write it to a file that nothing runs, such as .md or .txt",
            )

    return OfLabels(check, safe=(name, _is_inert))


def _is_inert(text: str) -> bool:
    return not is_executable(text)


def content_label(call: CallView, traits: Traits) -> Label:
    """The label of what is written to the file: the join of all arguments but the path."""
    return join(a.label for a in call.arguments if a.name.casefold() != traits.path)


def may_be_executed(argument: Argument) -> bool:
    """Whether a file of this path may be executed; a path with an unknown end may be any file."""
    if argument.items or not argument.parts:
        return True
    end = argument.parts[-1]
    if not isinstance(end, str) and end.text is None:
        return True
    return is_executable("".join(known(part, "x") for part in argument.parts))
