"""Recognises command lines that only display information and change no file.

In: a command line. Out: yes or no; no for every unknown command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from callsheet.policy.programs.commands import verb_of
from callsheet.policy.programs.script import Command, NotClosedError, commands_of

_ALWAYS = frozenset(
    {"cat", "cut", "date", "df", "dig", "dmesg", "du", "echo", "false", "file", "free", "getent", "grep",
     "egrep", "fgrep", "head", "host", "hostname", "id", "ip", "last", "ls", "lsblk", "lscpu", "lsof",
     "lspci", "lsusb", "netstat", "nproc", "nslookup", "pgrep", "pidof", "ping", "printenv", "printf", "ps",
     "pwd", "readlink", "realpath", "ss", "stat", "tail", "test", "tr", "true", "tty", "uname", "uptime",
     "vmstat", "w", "wc", "which", "who", "whoami"}
)  # fmt: skip
_OF_CONTAINERS = frozenset({"images", "info", "inspect", "logs", "port", "ps", "stats", "top", "version"})
_IF_TOLD: Mapping[str, frozenset[str]] = {
    "docker": _OF_CONTAINERS,
    "podman": _OF_CONTAINERS,
    "kubectl": frozenset({"describe", "get", "logs", "top", "version"}),
    "git": frozenset({"describe", "diff", "log", "rev-parse", "shortlog", "show", "status"}),
    "systemctl": frozenset({"is-active", "is-enabled", "list-timers", "list-units", "show", "status"}),
}
_CHANGING: Mapping[str, re.Pattern[str]] = {
    "date": re.compile(r"-[A-Za-z]*s.*|--s.*|\d.*"),
    "dmesg": re.compile(r"-[A-Za-z]*[CcDEn].*|--(?!human|color|time|level|facility|decode|since|until).*"),
    "file": re.compile(r"-[A-Za-z]*C.*|--compile"),
    "hostname": re.compile(r"[^-].*|-[A-Za-z]*[bF].*|--(?:boot|file).*"),
    "ip": re.compile(
        r"a(?:dd|ppend)|ch\w*|d(?:el\w*)?|exec|f(?:lush)?|netns|re(?:place|store)|s(?:et)|vrf|-b\w*|-force"
    ),
    "printf": re.compile(r"-.*"),
    "ss": re.compile(r"-[A-Za-z]*[KD].*|--(?:kill|diag).*"),
}
"""Words with which some of these commands change something or start a program."""
_SYSTEM = re.compile(r"(?:/usr(?:/local)?)?/s?bin/[\w.-]+|[^/]+")
"""A command that is not a file of the workspace."""
NOWHERE = frozenset({"/dev/null"})
"""Targets of redirections that are no files."""
_PUTS_IN = ("$(", "`", "<(", ">(")


def only_looks(line: str) -> bool:
    """Whether no command of a line writes a file, by the commands' names and their redirections.

    >>> only_looks("docker ps | grep web 2>/dev/null"), only_looks("cp a b"), only_looks("cat a > b")
    (True, False, False)
    """
    if any(sign in line for sign in _PUTS_IN):
        return False
    try:
        commands = commands_of(line)
    except NotClosedError:
        return False
    return bool(commands) and all(_looks(command) for command in commands)


def _looks(command: Command) -> bool:
    words = list(command.words)
    if not NOWHERE.issuperset(command.writes) or any(word.startswith("--output") for word in words):
        return False
    if not words:
        return True
    if not _SYSTEM.fullmatch(words[0]):
        return False
    verb = verb_of(words[0])
    changing = _CHANGING.get(verb)
    if changing is not None and any(changing.fullmatch(word) for word in words[1:]):
        return False
    subcommand = next((word for word in words[1:] if not word.startswith("-")), "")
    return verb in _ALWAYS or subcommand in _IF_TOLD.get(verb, frozenset[str]())
