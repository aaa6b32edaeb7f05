"""Parses a shell script into its commands: words, redirections and the operators between them.

In: the text of a script. Out: its commands in text order; command substitutions (`$(…)`, `<(…)`, back quotes)
remain part of a word and can be extracted. Linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLANK = re.compile(r"(?:[ \t]|\r(?=\n|\Z)|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_LEADING = re.compile(r"\d*(?:&>>|&>|>&|<&|<<<|<<-?|>>|>\||<>|[<>](?!\())")
_JOINT = re.compile(r";;&?|;&|&&|\|\||\|&|[;\n|&()]")
_HERE_END = re.compile(r"\\?(['\"]?)([\w.-]+)\1")
_PIECE = re.compile(
    r"'(?P<single>[^']*)'|\\(?P<continued>)\n|\\(?P<escaped>.)"
    r"|(?P<plain>(?:[^ \t\r\n;&|()<>'\"\\`$]|\r(?!\n|\Z))+|\$)",
    re.DOTALL,
)
"""Part of a word. Other white space than blanks and line ends belongs to the word, as in a shell."""
_QUOTED = re.compile(r"\\.|\"|\$\(", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:([\"\\$`])|\n)")
_NEST = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[()]", re.DOTALL)
_BACK_QUOTED = re.compile(r"\\.|`((?:[^`\\]|\\.)*)`", re.DOTALL)
_PUT_IN = ("$(", "<(", ">(")
_NEXT_NEST = re.compile(r"[$<>]\(")


@dataclass(slots=True)
class Command:
    """A simple command.

    `reads` are the paths redirected to its standard input, `here_texts` here-documents and here-strings,
    `writes` the paths its output is redirected to, `joint` the operator before the next command.
    """

    words: list[str] = field(default_factory=list[str])
    reads: list[str] = field(default_factory=list[str])
    here_texts: list[str] = field(default_factory=list[str])
    writes: list[str] = field(default_factory=list[str])
    joint: str = ""


class NotClosedError(ValueError):
    """A quote is not closed, so the rest of the script is ambiguous."""


def commands_of(script: str) -> list[Command]:
    """The commands of a script.

    Raises NotClosedError.

    >>> found = commands_of("sort < 'a b' | sh -c \\"$(cat x)\\"  # why")
    >>> [(one.words, one.reads, one.joint) for one in found]
    [(['sort'], ['a b'], '|'), (['sh', '-c', '$(cat x)'], [], '')]
    """
    return _Reader(script).commands()


def put_in(word: str) -> Iterator[str]:
    """The command substitutions in a word.

    >>> list(put_in("x$(cat a)$(cat b)")), list(put_in("plain"))
    (['cat a', 'cat b'], [])
    """
    at = _next_nest(word, 0)
    while at >= 0:
        end = _close(word, at + 2)
        yield word[at + 2 : end]
        at = _next_nest(word, end)


def without_put_in(text: str) -> str:
    """A text with each command substitution replaced by a variable.

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
    match = _NEXT_NEST.search(text, at)
    return match.start() if match else -1


def _close(text: str, at: int) -> int:
    """The index of the parenthesis that closes one opened before `at`; the end of the text if none does."""
    depth = 1
    for match in _NEST.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return len(text)


def _as_put_in(match: re.Match[str]) -> str:
    """A back-quoted substitution rewritten as `$(…)`; escapes stay unchanged."""
    return match[0] if match[1] is None else f"$({match[1]})"


def _unescaped(match: re.Match[str]) -> str:
    """What an escape in a double-quoted string stands for: nothing if it continues the line."""
    return match[1] or ""


class _Reader:
    """A recursive-descent parser for a script."""

    def __init__(self, script: str) -> None:
        self._text = _BACK_QUOTED.sub(_as_put_in, script)
        self._at = 0
        self._awaited: list[tuple[Command, str]] = []

    def commands(self) -> list[Command]:
        commands, command = list[Command](), Command()
        while self._at < len(self._text):
            joint = self._joint()
            if joint is None:
                self._part(command)
                continue
            command.joint = joint
            commands.append(command)
            command = Command()
            if joint == "\n":
                self._here_texts()
        return [*commands, command]

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
        """Parse a word, or a redirection and its target."""
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
        if leads in (">&", "<&") and word.isdecimal():  # duplicates a descriptor
            return
        into = (
            command.here_texts
            if leads == "<<<"
            else command.reads
            if leads.startswith("<")
            else command.writes
        )
        into.append(word)
        if leads == "<>":
            command.writes.append(word)

    def _word(self) -> str:
        """The word at this position without its quotes; empty if there is none."""
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
        """The content of a double-quoted string, whose substitutions may contain quotes themselves."""
        begin, at = self._at + 1, self._at + 1
        while match := _QUOTED.search(self._text, at):
            if match[0] == '"':
                self._at = match.end()
                return _ESCAPED.sub(_unescaped, self._text[begin : match.start()])
            at = _close(self._text, match.end()) + 1 if match[0] == "$(" else match.end()
        raise NotClosedError('"')

    def _here_texts(self) -> None:
        """Read the here-documents that the preceding commands are waiting for."""
        for command, end in self._awaited:
            match = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(self._text, self._at)
            stop = match.start() if match else len(self._text)
            command.here_texts.append(self._text[self._at : stop])
            self._at = match.end() if match else stop
        self._awaited.clear()
