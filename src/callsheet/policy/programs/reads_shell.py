"""Finds the files that a shell script may read: all that its commands name, except for known non-readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from posixpath import join
from typing import NamedTuple, TypeAlias

from callsheet.policy.programs.commands import (
    LAUNCHERS,
    MOST_PLACES,
    WRAPPERS,
    gives_code,
    is_interpreter,
    language_of,
    places,
    verb_of,
)
from callsheet.policy.programs.file_names import NOT_KNOWN, names_in
from callsheet.policy.programs.script import Command, NotClosedError, commands_of, put_in
from callsheet.policy.programs.told_files import files_told

Opened: TypeAlias = "Callable[[str, str | None, int], tuple[str, ...]]"
"""The paths that a program in some language opens, at a nesting depth."""

_TAKES_FILES = frozenset(
    {"cat", "tac", "nl", "head", "tail", "less", "more", "bat", "base64", "base32", "xxd", "od", "hexdump",
     "strings", "sort", "uniq", "wc", "cut", "paste", "join", "comm", "diff", "cmp", "column", "fold",
     "fmt", "rev", "shuf", "split", "md5sum", "sha1sum", "sha256sum", "sha512sum", "gzip", "zcat", "bzip2",
     "xz", "cp", "mv", "ln", "install", "rsync", "link", "rename", "source", "."}
)  # fmt: skip
_TAKES_FILES_SECOND = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk", "jq", "yq"})
"""Commands whose first operand is a script or pattern and whose others are files."""
_LOOKS_DOWN = frozenset({"rg", "ag"})
"""Commands among them that search the whole folder if given no file."""
_ARCHIVES = frozenset({"zip", "7z"})
_ONLY_NAMES = frozenset(
    {"echo", "printf", "mkdir", "rmdir", "touch", "rm", "unlink", "ls", "dir", "vdir", "cd", "pushd",
     "popd", "test", "[", "[[", "chmod", "chown", "chgrp", "basename", "dirname", "realpath", "readlink",
     "which", "whence", "export", "set", "unset", "declare", "local", "readonly", "alias", "find", "fd",
     "locate", "tree", "stat", "file", "du", "df", "tr", "seq", "date", "sleep", "kill", "tee", "sponge",
     "mktemp", "truncate", "shred", "for", "case", "select", "function", "exit", "return", "true", "false",
     ":", "hash", "pwd", "trap", "eval", "mkfifo"}
)  # fmt: skip
"""Commands that take file names and do not output the files' content."""
_SHOWS_UNNAMED: Mapping[str, frozenset[str]] = {
    verb: frozenset(subcommands.split())
    for verbs, subcommands in (
        (
            "git",
            "annotate archive blame bundle cat-file diff fast-export format-patch grep log push range-diff"
            " reflog send-email send-pack show stash whatchanged",
        ),
        ("npm yarn pnpm cargo poetry flit uv hatch pdm gem vsce ovsx", "publish push"),
        ("docker podman buildah", "build buildx push"),
        ("twine", "upload"),
        ("vercel netlify firebase fly flyctl surge wrangler", "deploy"),
    )
    for verb in verbs.split()
}
"""For each program its subcommands that show or send files which no argument names, now or in the past."""
_LEAVES = frozenset({"rm", "checkout", "restore", "reset", "status", "ls-files", "check-ignore"})
"""git subcommands that do not show the content of the files they name."""
_INTO_LAST = frozenset({"cp", "mv", "ln", "install", "rsync", "link", "rename"})
_INTO = frozenset({"-o", "-O", "--output", "--out", "--outfile", "--output-file", "--output-document"})
"""Options that take an output file."""
_BEGINS = frozenset({"if", "while", "until", "for", "select", "case", "{", "("})
_ENDS: Mapping[str, frozenset[str]] = {
    "fi": frozenset({"if"}),
    "done": frozenset({"while", "until", "for", "select"}),
    "esac": frozenset({"case"}),
    "}": frozenset({"{"}),
    ")": frozenset({"("}),
}
_OTHERWISE = frozenset({"else", "elif", ";;"})
_MOST_FOLDERS = 8
_LONGEST = 300
_BY_ADDRESS = frozenset({"curl", "wget", "ping", "dig", "host", "nslookup"})
"""Commands that take addresses instead of files, one per line of input."""
_TAKING: Mapping[str, frozenset[str]] = {
    verb: frozenset(options.split())
    for verbs, options in (
        ("head tail", "-n -c"),
        ("cut paste", "-d -f -c -b"),
        ("sort", "-k -t -o -S -T"),
        ("base64 base32 fold fmt", "-w"),
        ("split", "-l -b -n"),
        ("od xxd hexdump strings", "-n -l -s -N -A -t -c"),
        ("join", "-t -1 -2 -o"),
        ("column", "-s -o -c"),
        ("shuf", "-n"),
        ("grep egrep fgrep rg ag", "-e -f -m -A -B -C"),
        ("sed", "-e -f"),
        ("awk gawk", "-f -F -v"),
        ("jq yq", "-f --arg --argjson"),
    )
    for verb in verbs.split()
}
"""For each program its options that take the following word."""


def opened_by_shell(program: str, opened: Opened, depth: int) -> Iterator[str]:
    """The paths that a script opens; `opened` is asked about nested programs."""
    try:
        commands = commands_of(program)
    except NotClosedError:
        return
    written, folders = _Made(), _Folders()
    before = ""
    for command in commands:
        written.begin(command, before)
        folders.begin(before)
        is_fed = before in ("|", "|&") or bool(command.reads or command.here_texts)
        for path in _by_command(command, opened, depth, is_fed=is_fed):
            if path not in written:
                yield from (join(folder, path) for folder in folders.now)
        written.add((*command.writes, *_made_by(command)))
        folders.end(command, before)
        before = command.joint


class _Made:
    """The files that a script has certainly created so far; skippable commands do not count later."""

    def __init__(self) -> None:
        self._levels: list[tuple[str, list[str]]] = [("", [])]
        self._made = Counter[str]()
        self._in_chain = set[str]()
        self._is_sure = True

    def begin(self, command: Command, before: str) -> None:
        """A command begins after this operator."""
        word = command.words[0] if command.words else ""
        if before not in ("&&", "|", "|&"):
            self._in_chain.clear()
        self._is_sure = before not in ("&&", "||")
        for sign in (before, word):
            if sign in _ENDS and self._levels[-1][0] in _ENDS[sign]:
                self._made.subtract(self._levels.pop()[1])
            elif sign in _BEGINS:
                self._levels.append((sign, []))
            elif sign in _OTHERWISE:
                self._made.subtract(self._levels[-1][1])
                self._levels[-1][1].clear()

    def add(self, paths: Iterable[str]) -> None:
        """The command creates files; in an `&&` chain they count only for the rest of the chain."""
        added = list(paths)
        if self._is_sure:
            self._levels[-1][1].extend(added)
            self._made.update(added)
        else:
            self._in_chain.update(added)

    def __contains__(self, path: str) -> bool:
        return path in self._in_chain or self._made[path] > 0


class _Folders:
    """The possible working directories of a command; `cd` may fail unless `&&` follows it."""

    def __init__(self) -> None:
        self.now: Sequence[str] = ("",)
        self._later: tuple[str, ...] = ("",)

    def begin(self, before: str) -> None:
        """A command begins after this operator."""
        if before != "&&":
            self.now = self._later

    def end(self, command: Command, before: str) -> None:
        """The command has ended and may have changed the working directory."""
        words = command.words
        at = next((n for n, word in enumerate(words) if word not in WRAPPERS), len(words))
        if words[at : at + 1] not in (["cd"], ["pushd"]):
            return
        target = next((word for word in words[at + 1 :] if not word.startswith("-")), "$")
        is_known = "$" not in target and all(len(folder) < _LONGEST for folder in self.now)
        there = [join(folder, target) for folder in self.now] if is_known else [NOT_KNOWN]
        later = tuple(dict.fromkeys((*self._later, *there)))
        self._later = later if len(later) <= _MOST_FOLDERS else ("", NOT_KNOWN)
        self.now = there if command.joint == "&&" and before != "||" else self._later


def _by_command(command: Command, opened: Opened, depth: int, *, is_fed: bool) -> Iterator[str]:
    yield from command.reads
    words = command.words
    for word in (*words, *command.here_texts):
        for inner in put_in(word):
            yield from opened(inner, None, depth)
    for at, starter in places(words)[:MOST_PLACES]:
        verb, behind = verb_of(words[at]), words[at + 1 :]
        operands = list(_operands(verb, behind))
        if " " in verb:  # a command line in one word
            yield from opened(words[at], None, depth)
        if starter in ("xargs", "parallel") and _takes_files(verb):
            yield NOT_KNOWN
        yield from (NOT_KNOWN if "$" in word else word for word in files_told(verb, behind))
        if starter == "find":
            yield from _found(words[1:at])
            operands = [word for word in operands if word not in ("{}", "+", ";")]
        if verb in _TAKES_FILES:
            is_last_made = verb in _INTO_LAST and len(operands) > 1 and not _names_folder(verb, behind)
            yield from operands[:-1] if is_last_made else operands
        elif verb in _TAKES_FILES_SECOND:
            yield from _files_behind(verb, behind, operands, is_fed=is_fed)
        elif verb == "tar":
            yield from _of_archive(behind).reads
        elif verb in _ARCHIVES:
            yield from operands[0 if "-" in behind else 1 :]
        elif verb == "eval":
            yield from opened(" ".join(behind), None, depth)
        elif verb in _SHOWS_UNNAMED and not _SHOWS_UNNAMED[verb].isdisjoint(operands[:1]):
            yield NOT_KNOWN
        elif is_interpreter(verb):
            yield from _by_interpreter(verb, behind, (*command.here_texts,), opened, depth)
        elif not _only_names(verb, operands):
            yield from _named(behind)


def _names_folder(verb: str, words: Iterable[str]) -> bool:
    """Whether an option names the target folder, so that the last operand is a source too."""
    return verb != "rsync" and any(word.startswith(("-t", "--target-directory")) for word in words)


def _found(words: Sequence[str]) -> Iterator[str]:
    """What `find` finds, as glob patterns."""
    before = takewhile(lambda word: not word.startswith(("-", "(", "!")), words)
    named = [word for option, word in pairwise(words) if option in ("-name", "-iname")]
    for root in list(before) or [""]:
        yield from (join(root, name) for name in named or [NOT_KNOWN])


class _Archive(NamedTuple):
    """The files that `tar` reads, and the archive it creates."""

    reads: Sequence[str]
    makes: Sequence[str]


def _of_archive(words: Sequence[str]) -> _Archive:
    """What `tar` does with files, according to its first word, with or without a hyphen."""
    mode, operands = "".join(words[:1]), list(_operands("tar", words[1:]))
    is_made = not mode.startswith("--") and "c" in mode
    at = 1 if is_made and "f" in mode and "-" not in words[1:2] else 0
    return _Archive(operands[at:], operands[:at])


def _takes_files(verb: str) -> bool:
    return verb not in _BY_ADDRESS and not _only_names(verb, ())


def _only_names(verb: str, operands: Iterable[str]) -> bool:
    if verb == "git":
        return not _LEAVES.isdisjoint([*operands][:1])
    return verb in _ONLY_NAMES or verb in WRAPPERS or verb in LAUNCHERS


def _files_behind(verb: str, behind: list[str], operands: list[str], *, is_fed: bool) -> Iterator[str]:
    """The files of a command whose first operand is a script or pattern."""
    files = operands[0 if "-e" in behind or "-f" in behind else 1 :]
    yield from files
    is_deep = verb in _LOOKS_DOWN or any(
        word.startswith("-")
        and not word.startswith("--")
        and "r" in word.casefold()
        and verb.endswith("grep")
        for word in behind
    )
    if is_deep and not files and not is_fed:
        yield NOT_KNOWN


def _by_interpreter(
    verb: str, behind: list[str], piped: tuple[str, ...], opened: Opened, depth: int
) -> Iterator[str]:
    """The files opened by code on an interpreter's command line, and the arguments after it.

    The operands of a script file are handled where the script is.
    """
    given = [at + 1 for at, word in enumerate(behind[:-1]) if gives_code(verb, word)]
    if "-" in behind:  # the program comes from standard input
        yield from _named(behind[behind.index("-") + 1 :])
    for code in (*(behind[at] for at in given), *piped):
        yield from opened(code, language_of(verb), depth)
    if given:
        yield from _named(behind[given[-1] + 1 :])


def _named(words: Iterable[str]) -> Iterator[str]:
    """The files that words name, except values of output options."""
    before = ""
    for word in words:
        option, _, value = word.partition("=")
        if before not in _INTO and not (value and option in _INTO):
            yield from (NOT_KNOWN if "$" in name else name for name in names_in(word))
        before = word


def _made_by(command: Command) -> list[str]:
    """The files that a command creates, from its input or from other files."""
    words = command.words
    paths = [word for option, word in pairwise(words) if option in _INTO]
    for at, _ in places(words)[:MOST_PLACES]:
        verb = verb_of(words[at])
        operands = list(_operands(verb, words[at + 1 :]))
        if verb == "tar":
            return [*paths, *_of_archive(words[at + 1 :]).makes]
        if verb in ("tee", "sponge"):
            return [*paths, *operands]
        if verb in _INTO_LAST:
            return [*paths, *operands[-1:]]
    return paths


def _operands(verb: str, words: Iterable[str]) -> Iterator[str]:
    """The operands of a command, without options; a computed one may be any file."""
    taking, before = _TAKING.get(verb, frozenset[str]()), ""
    for word in words:
        if not word.startswith("-") and before not in taking:
            yield NOT_KNOWN if "$" in word else word
        before = word
