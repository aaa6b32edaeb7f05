"""Reads single keys from a terminal without Enter; keys that were typed ahead are kept.

Input: a terminal on standard input. Output: keys, as a character or the escape sequence of an arrow key.
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
    """The keys of standard input, in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._typed: deque[str] = deque()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def key(self) -> str:
        """The next key. Raises EOFError at the end of input."""
        while not self._typed:
            data = os.read(self._fd, _READ_SIZE)
            if not data:
                raise EOFError
            self._typed.extend(keys_in(self._decode(data)))
        return self._typed.popleft()


class _ClickKeyboard(Keyboard):
    """Reads keys with click, on systems without termios."""

    def key(self) -> str:
        return click.getchar()


def keys_in(text: str) -> Iterator[str]:
    """The keys in the data that a terminal has sent.

    >>> list(keys_in("jk\\x1b[A\\x1bOBq"))
    ['j', 'k', '\\x1b[A', '\\x1bOB', 'q']
    """
    yield from _KEY.findall(text)


@contextmanager
def keyboard() -> Generator[Keyboard]:
    """The keys of the terminal, whose mode is restored at the end."""
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
