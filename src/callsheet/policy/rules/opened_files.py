"""Labels what a program reads by the files that it sees, since its output may contain all of them."""

from __future__ import annotations

from collections.abc import Callable

from callsheet.ir.labels import LINKS, LITERAL, UNKNOWN, USER, Label, join
from callsheet.policy.audiences import NOBODY_KNOWN
from callsheet.policy.builtins import Reach, Traits
from callsheet.policy.calls import CallView, Duty, Rule
from callsheet.policy.paths import PathRefused, covers, host_path, is_pattern, workspace_path
from callsheet.policy.programs import PROGRAM, READS, View, normal_paths, program_of, program_view, words_of
from callsheet.policy.rules.base import Notes, OfLabels, Setting, leaves, of_name, shown
from callsheet.policy.rules.paths import SENSITIVE

DECLARE = 'say what it reads with reads=["…"] (reads=[] for no file): the sandbox shows it nothing else'
"""The way out for a program that is assumed to read the whole workspace."""
_SECRET = Label(True, frozenset())
_OF_PROCESSES = ("/environ", "/cmdline", "/mem")


def seen_by(setting: Setting, tool: str, call: CallView) -> View:
    """What of the workspace the program of a call sees under the policy."""
    traits = setting.traits(tool)
    return program_view(tool, call, None if traits is None else traits.reads)


def opened_by(setting: Setting, tool: str, call: CallView) -> Label:
    """The join of the labels of all files that a call's program sees.

    >>> from callsheet.policy.calls import Argument
    >>> from callsheet.policy.model import Policy
    >>> call = CallView("S1", "SHELL_EXEC", (Argument("code", ("make",)),))
    >>> str(opened_by(Setting(Policy()), "SHELL_EXEC", call))
    'U/priv'
    """
    label = _of_view(setting, tool, call)
    if label.is_secret and setting.is_approved(call):
        return Label(label.untrusted, frozenset({USER, LINKS}))
    return label


def hidden_from(setting: Setting, tool: str, call: CallView) -> Callable[[str], bool] | None:
    """A predicate for workspace files that the program must not see although they are where it reads; None if
    there are none.

    Their label is more restrictive than that of the result will be: a secret file in a folder, for instance.
    """
    label = _of_view(setting, tool, call)
    if all(one.flows_to(label) for one in setting.sources.of_files):
        return None
    return lambda path: not setting.sources.file(path).flows_to(label)


def _of_view(setting: Setting, tool: str, call: CallView) -> Label:
    """The join of the labels of all files that a program sees, whoever has approved it."""
    view = seen_by(setting, tool, call)
    if view.paths is None:
        return _of_whole(setting).join(_mentioned(setting, tool, call))
    return join(_of_declared(setting, path) for path in view.paths)


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """FLOW for a program with network access that sees files that are not public, PATH for declared paths
    outside the workspace, and the obligation to show nothing else.
    """
    if traits is None or not traits.runs_code:
        return None
    is_networked = traits.reach is Reach.WORLD

    def check(call: CallView, notes: Notes) -> None:
        _check_paths(setting, call, notes)
        view = seen_by(setting, tool, call)
        notes.oblige(Duty.FILES, call, _shown_files(view))
        label = opened_by(setting, tool, call) if is_networked else LITERAL
        if not label.may_reach(NOBODY_KNOWN):
            what = shown(label) if not view.is_whole else "all files of the workspace, which are private data"
            notes.object(
                Rule.FLOW,
                f"the program of @{tool} has network access and sees {what}",
                PROGRAM[0],
                help=DECLARE if view.is_whole else "declare public files only, or run it without a network",
                reaches="outside",
            )

    return OfLabels(check, sees=PROGRAM)


def _shown_files(view: View) -> str:
    if view.paths is None:
        return ""
    return ", ".join(path or "." for path in view.paths) or "no file"


def _check_paths(setting: Setting, call: CallView, notes: Notes) -> None:
    """PATH for declared paths that lead out of the workspace; an approval for secrets among them."""
    declared = of_name(call, READS)
    for leaf in () if declared is None or not declared.items else leaves(declared):
        if leaf.text is None:
            continue
        try:
            (path,) = normal_paths((leaf.text,))
        except PathRefused as error:
            notes.object(Rule.PATH, f"{error}: {leaf.text!r}", READS, help="name files inside the workspace")
            continue
        if _of_declared(setting, path).is_secret and not setting.is_approved(call):
            notes.ask(f"@{call.tool} reads {path}, which is a secret by its name")


def _of_whole(setting: Setting) -> Label:
    """The label of the workspace as a whole, without the secrets in it, which programs do not see."""
    return join(label for label in setting.sources.parts("") if not label.is_secret)


def _of_declared(setting: Setting, path: str) -> Label:
    """The label of a declared file, folder or glob; secrets below it count only if the path names them."""
    sources = setting.sources
    if not path:
        return _of_whole(setting)
    if is_pattern(path):
        return _SECRET if _names_secrets(setting, path) else _without_secrets(setting, path)
    below = sources.file(f"{path}/x")
    return below if below.is_secret else sources.file(path).join(_without_secrets(setting, path))


def _without_secrets(setting: Setting, path: str) -> Label:
    return join(label for label in setting.sources.parts(path) if not label.is_secret)


def _names_secrets(setting: Setting, glob: str) -> bool:
    """Whether a glob is about secret files, rather than about files among which some may be secret."""
    name = glob.rpartition("/")[2]
    return name.strip("*?") not in ("", ".") and setting.sources.may_be_secret(glob)


def _mentioned(setting: Setting, tool: str, call: CallView) -> Label:
    """Secret if the words of a program name a secret: it will not find it, and had better not try."""
    code, _ = program_of(tool, call)
    words = () if code is None else words_of(code)
    return join(label for word in words if (label := _of_word(setting, word)).is_secret)


def _of_word(setting: Setting, word: str) -> Label:
    if is_pattern(word):
        return _SECRET if _names_secrets(setting, word) else LITERAL
    try:
        own = workspace_path(word)
    except PathRefused:
        return _outside(setting, word)
    return setting.sources.file(own).join(setting.sources.file(f"{own}/x"))


def _outside(setting: Setting, path: str) -> Label:
    try:
        place = host_path(path)
    except PathRefused:
        return _SECRET if setting.sources.file(path.lstrip("~./"), True).is_secret else UNKNOWN
    if place.startswith(("/dev/", "/sys/", "/proc/")):
        return _SECRET if place.endswith(_OF_PROCESSES) else LITERAL
    is_sensitive = any(covers(pattern, place) for pattern in SENSITIVE)
    return _SECRET if is_sensitive or setting.sources.file(place, True).is_secret else LITERAL
