"""A shell script as its commands: words, what is led into each and out of it, and what joins it to the next.

In: the text of a script. Out: its commands in the order of the text; what stands in `$(…)`, `<(…)` and in
back quotes is part of a word, and can be asked for. Linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_LEADING = re.compile(r"\d*(?:&>>|&>|>&|<&|<<<|<<-?|>>|>\||<>|[<>](?!\())")
_JOINT = re.compile(r";;&?|;&|&&|\|\||\|&|[;\n|&()]")
_HERE_END = re.compile(r"\\?(['\"]?)([\w.-]+)\1")
_PIECE = re.compile(r"'(?P<single>[^']*)'|\\(?P<escaped>.)|(?P<plain>[^\s;&|()<>'\"\\`$]+|\$)", re.DOTALL)
_QUOTED = re.compile(r"\\.|\"|\$\(", re.DOTALL)
_ESCAPED = re.compile(r"\\([\"\\$`\n])")
_NEST = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[()]", re.DOTALL)
_BACK_QUOTED = re.compile(r"\\.|`((?:[^`\\]|\\.)*)`", re.DOTALL)
_PUT_IN = ("$(", "<(", ">(")
_NEXT_NEST = re.compile(r"[$<>]\(")


@dataclass(slots=True)
class Command:
    """A simple command.

    `reads` are the paths that are led to its standard input, `said` the texts that are, `writes` the paths
    that its output goes to, `joint` what stands between it and the next.
    """

    words: list[str] = field(default_factory=list[str])
    reads: list[str] = field(default_factory=list[str])
    said: list[str] = field(default_factory=list[str])
    writes: list[str] = field(default_factory=list[str])
    joint: str = ""


class NotClosedError(ValueError):
    """A quote in a script is not closed: what follows it may be anything."""


def commands_of(script: str) -> list[Command]:
    """The commands of a script.

    Raises NotClosedError.

    >>> found = commands_of("sort < 'a b' | sh -c \\"$(cat x)\\"  # why")
    >>> [(one.words, one.reads, one.joint) for one in found]
    [(['sort'], ['a b'], '|'), (['sh', '-c', '$(cat x)'], [], '')]
    """
    return _Reader(script).commands()


def put_in(word: str) -> Iterator[str]:
    """The scripts that stand in a word, whose output is put there.

    >>> list(put_in("x$(cat a)$(cat b)")), list(put_in("plain"))
    (['cat a', 'cat b'], [])
    """
    at = _next_nest(word, 0)
    while at >= 0:
        end = _close(word, at + 2)
        yield word[at + 2 : end]
        at = _next_nest(word, end)


def without_put_in(text: str) -> str:
    """A text with a variable for each script that is put into it.

    >>> without_put_in("ls $(cat a)/$(cat b)")
    'ls $_/$_'
    """
    pieces, begin = list[str](), 0
    at = _next_nest(text, 0)
    while at >= 0:
        pieces += (text[begin:at], "$_")
        begin = _close(text, at + 2) + 1
        at = _next_nest(text, begin)
    return "".join((*pieces, text[begin:]))


def _next_nest(text: str, at: int) -> int:
    found = _NEXT_NEST.search(text, at)
    return found.start() if found else -1


def _close(text: str, at: int) -> int:
    """Where the parenthesis is closed that was opened before `at`; the end of the text if nowhere."""
    depth = 1
    for found in _NEST.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return found.start()
    return len(text)


def _as_put_in(found: re.Match[str]) -> str:
    """A script in back quotes as one in `$(…)`; what is escaped as it is."""
    return found[0] if found[1] is None else f"$({found[1]})"


class _Reader:
    """Reads a script from its beginning."""

    def __init__(self, script: str) -> None:
        self._text = _BACK_QUOTED.sub(_as_put_in, script)
        self._at = 0
        self._awaited: list[tuple[Command, str]] = []

    def commands(self) -> list[Command]:
        found, command = list[Command](), Command()
        while self._at < len(self._text):
            joint = self._joint()
            if joint is None:
                self._part(command)
                continue
            command.joint = joint
            found.append(command)
            command = Command()
            if joint == "\n":
                self._here_texts()
        return [*found, command]

    def _joint(self) -> str | None:
        for skipped in (_BLANK, _COMMENT, _BLANK):
            match = skipped.match(self._text, self._at)
            self._at = match.end() if match else self._at
        match = _JOINT.match(self._text, self._at)
        if match is None or _LEADING.match(self._text, self._at):
            return None
        self._at = match.end()
        return match[0]

    def _part(self, command: Command) -> None:
        """A word, or a sign with the word that something is led from or to."""
        sign = _LEADING.match(self._text, self._at)
        if sign is None:
            if self._at < len(self._text):
                command.words.append(self._word())
            return
        self._at = sign.end()
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        leads = sign[0].lstrip("0123456789")
        if leads in ("<<", "<<-"):
            end = _HERE_END.match(self._text, self._at)
            if end is not None:
                self._at = end.end()
                self._awaited.append((command, end[2]))
            return
        word = self._word()
        into = command.said if leads == "<<<" else command.reads if leads.startswith("<") else command.writes
        into.append(word)
        if leads == "<>":
            command.writes.append(word)

    def _word(self) -> str:
        """The word from here on, without its quotes; empty where there is none."""
        pieces: list[str] = []
        while self._at < len(self._text):
            if self._text.startswith(_PUT_IN, self._at):
                end = _close(self._text, self._at + 2)
                pieces.append(self._text[self._at : end] + ")")
                self._at = end + 1
                continue
            if self._text.startswith('"', self._at):
                pieces.append(self._quoted())
                continue
            piece = _PIECE.match(self._text, self._at)
            if piece is None:
                break
            self._at = piece.end()
            pieces.append(piece[piece.lastgroup or 0])
        else:
            return "".join(pieces)
        if self._text[self._at] in "'\"\\`":
            raise NotClosedError(self._text[self._at])
        return "".join(pieces)

    def _quoted(self) -> str:
        """What stands between two quotes, where scripts are put in that may have quotes of their own."""
        begin, at = self._at + 1, self._at + 1
        while found := _QUOTED.search(self._text, at):
            if found[0] == '"':
                self._at = found.end()
                return _ESCAPED.sub(r"\1", self._text[begin : found.start()])
            at = _close(self._text, found.end()) + 1 if found[0] == "$(" else found.end()
        raise NotClosedError('"')

    def _here_texts(self) -> None:
        """What the lines from here on say to the commands that wait for it."""
        for command, end in self._awaited:
            match = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(self._text, self._at)
            stop = match.start() if match else len(self._text)
            command.said.append(self._text[self._at : stop])
            self._at = match.end() if match else stop
        self._awaited.clear()
