"""EXECUTABLE: untrusted content is not written to a file that some program executes."""

from __future__ import annotations

from callsheet.ir.labels import Label, join
from callsheet.policy.builtins import PathUse, Traits
from callsheet.policy.calls import Argument, CallView, Hole, Rule
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
        end = _unknown_end(argument)
        if end is not None:
            notes.object(
                Rule.EXECUTABLE,
                f"@{tool} would put untrusted content into a file that may be executed:"
                " the end of its path is not known before the run",
                name,
                help=f"end the path with an extension that nothing executes: {_with_ending(end)}",
            )
        elif may_be_executed(argument):
            notes.object(
                Rule.EXECUTABLE,
                f"@{tool} would put untrusted content where it is executed",
                name,
                help="write it to a file that nothing runs, such as .md or .txt",
            )

    return OfLabels(check, safe=(name, _is_inert))


def _is_inert(text: str) -> bool:
    return not is_executable(text)


def _unknown_end(argument: Argument) -> Hole | None:
    """The data that a path ends with, if its text is not known."""
    end = argument.parts[-1] if argument.parts else ""
    return end if isinstance(end, Hole) and end.text is None else None


def _with_ending(end: Hole) -> str:
    """A reference to this data before a file extension; `$day.md` may stand for `${day}.md`."""
    name, _, ending = end.name.partition(".")
    if not ending.isalpha() or is_executable(f"x.{ending}"):
        ending = "md"
    return f"${{{name}}}.{ending}"


def content_label(call: CallView, traits: Traits) -> Label:
    """The label of what is written to the file: the join of all arguments but the path."""
    return join(a.label for a in call.arguments if a.name.casefold() != traits.path)


def may_be_executed(argument: Argument) -> bool:
    """Whether a file of this path may be executed; a path with an unknown end may be any file."""
    if argument.items or not argument.parts or _unknown_end(argument) is not None:
        return True
    return is_executable("".join(known(part, "x") for part in argument.parts))
