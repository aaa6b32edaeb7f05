"""Labels the files that a program opens by name, since its output may contain them as READ_FILE's does."""

from __future__ import annotations

from callsheet.ir.labels import LINKS, LITERAL, UNKNOWN, USER, Label, join
from callsheet.policy.audiences import NOBODY_KNOWN
from callsheet.policy.builtins import Reach, Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.paths import PathRefused, covers, host_path, is_pattern, workspace_path
from callsheet.policy.programs import files_opened, files_written, only_modules
from callsheet.policy.rules.base import Notes, OfLabels, Setting, known, of_name, shown
from callsheet.policy.rules.paths import SENSITIVE

PROGRAM = ("code", "language")
"""The arguments of code tools that determine what is opened."""
_SECRET = Label(True, frozenset())
_OF_THE_MACHINE = (
    "/bin/", "/boot/", "/dev/", "/etc/", "/lib", "/nix/", "/opt/", "/proc/", "/run/", "/sbin/", "/sys/",
    "/tmp/", "/usr/", "/snap/", "/System/", "/Library/",
)  # fmt: skip
"""System folders; files of people and services are elsewhere."""
_OF_KERNELS = ("/dev/", "/sys/", "/proc/")
_OF_A_PROCESS = ("/environ", "/cmdline", "/mem")


def opened_by(setting: Setting, tool: str, call: CallView) -> Label:
    """The join of the labels of all files that a call's program names for reading.

    >>> from callsheet.policy.model import Policy
    >>> call = CallView("S1", "SHELL_EXEC", (Argument("code", ("cat notes.txt",)),))
    >>> str(opened_by(Setting(Policy()), "SHELL_EXEC", call))
    'U/priv'
    """
    label = join(_label(setting, path) for path in opened(tool, call) if not _is_scratch(path))
    if label.is_secret and setting.is_approved(call):
        return Label(label.untrusted, frozenset({USER, LINKS}))
    return label


def opened(tool: str, call: CallView) -> tuple[str, ...]:
    """The paths that a call's program names for reading."""
    code, language = _program(tool, call)
    return files_opened(code, language)


def written(tool: str, call: CallView) -> tuple[str, ...]:
    """The paths that a call's program names for writing."""
    code, language = _program(tool, call)
    return tuple(dict.fromkeys(files_written(code, language)))


def modules_alone(tool: str, call: CallView) -> tuple[str, ...] | None:
    """The files of the modules that a call's program imports if it opens no other file, else None.

    >>> modules_alone("EXEC_CODE", CallView("S1", "EXEC_CODE", (Argument("code", ("import math",)),)))
    ('math.py', 'math/__init__.py')
    """
    if any((given := of_name(call, name)) is not None and given.text is None for name in PROGRAM):
        return None
    return only_modules(*_program(tool, call))


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """FLOW for a program with network access that opens files that are not public."""
    if traits is None or not traits.runs_code or traits.reach is not Reach.WORLD:
        return None

    def check(call: CallView, notes: Notes) -> None:
        label = opened_by(setting, tool, call)
        if not label.may_reach(NOBODY_KNOWN):
            notes.object(
                Rule.FLOW,
                f"the program of @{tool} has network access and opens {shown(label)}",
                PROGRAM[0],
                help="pass the program what it needs, or run it without a network",
                reaches="outside",
            )

    return OfLabels(check, sees=PROGRAM)


def _is_scratch(path: str) -> bool:
    """Whether a file is in the scratch folder, where programs put their own files."""
    return path.startswith("/tmp/") and ".." not in path


def _label(setting: Setting, path: str) -> Label:
    """The label of a file, of the files of a glob, or of a folder's content; system files that are not secret
    are public.
    """
    if is_pattern(path) and setting.sources.may_be_secret(path):
        return _SECRET
    try:
        own = workspace_path(path)
    except PathRefused:
        return _outside(setting, path)
    below = setting.sources.file(f"{own}/x")
    if below.is_secret:
        return below
    # a glob that begins with a wildcard stands for the whole workspace, not for the folders that rules name
    return setting.sources.file(own) if is_pattern(own.partition("/")[0]) else setting.sources.whole(own)


def _outside(setting: Setting, path: str) -> Label:
    """The label of a file outside the workspace."""
    try:
        place = host_path(path)
    except PathRefused:
        return _SECRET if setting.sources.file(path.lstrip("~./"), True).is_secret else UNKNOWN
    if place.startswith(_OF_KERNELS):
        return UNKNOWN if place.endswith(_OF_A_PROCESS) else LITERAL
    is_sensitive = any(covers(pattern, place) for pattern in SENSITIVE)
    if is_sensitive or setting.sources.file(place, True).is_secret:
        return _SECRET
    return LITERAL if f"{place}/".startswith(_OF_THE_MACHINE) else setting.sources.file(place, True)


def _program(tool: str, call: CallView) -> tuple[str, str]:
    """The program of a call, empty if it has none, and its language."""
    code, language_argument = (of_name(call, name) for name in PROGRAM)
    default = "shell" if tool == "SHELL_EXEC" else "python"
    language = default if language_argument is None or tool == "SHELL_EXEC" else _text(language_argument)
    return "" if code is None else _text(code), language


def _text(argument: Argument) -> str:
    return "".join(known(part, "x") for part in argument.parts)
