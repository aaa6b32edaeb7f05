"""Reads single keys from a terminal without Enter, keeping what was typed ahead.

In: a terminal on standard input. Out: keys: a character each, or what the terminal sends for an arrow.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import click

_KEY = re.compile(r"\x1b[\[O][0-?]*[ -/]*[@-~]|.", re.DOTALL)
_READ_SIZE = 1_024


class Keyboard:
    """The keys of standard input, in the order in which they were typed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._typed: deque[str] = deque()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def key(self) -> str:
        """The next key; raises EOFError where none can come any more."""
        while not self._typed:
            data = os.read(self._fd, _READ_SIZE)
            if not data:
                raise EOFError
            self._typed.extend(keys_in(self._decode(data)))
        return self._typed.popleft()


class _ClickKeyboard(Keyboard):
    """Where there is no such terminal to set up: as click reads keys."""

    def key(self) -> str:
        return click.getchar()


def keys_in(text: str) -> Iterator[str]:
    """The keys that a terminal has sent.

    >>> list(keys_in("jk\\x1b[A\\x1bOBq"))
    ['j', 'k', '\\x1b[A', '\\x1bOB', 'q']
    """
    yield from _KEY.findall(text)


@contextmanager
def keyboard() -> Generator[Keyboard]:
    """The keys of the terminal, which is as it was before in the end."""
    try:
        import termios  # noqa: PLC0415 - not everywhere
        import tty  # noqa: PLC0415 - as above
    except ImportError:
        yield _ClickKeyboard(-1)
        return
    fd = sys.stdin.fileno()
    saved_mode = termios.tcgetattr(fd)
    tty.setcbreak(fd, termios.TCSADRAIN)
    try:
        yield Keyboard(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, saved_mode)
