"""Which files programs run without being given them: what runs tests collects them by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from callsheet.policy.running.named import Named

_PYTHON_TESTS = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py")
_SCRIPT_TESTS = re.compile(r".*[._-](?:test|spec)\.[cm]?[jt]sx?|(?:test|spec)\.[cm]?[jt]sx?")
_COLLECTED: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("pytest", "py.test", "nosetests", "nose2", "tox", "nox"), _PYTHON_TESTS),
    "unittest": re.compile(r"test.*\.py"),
    **dict.fromkeys(("jest", "vitest", "mocha", "ava", "jasmine"), _SCRIPT_TESTS),
    "rspec": re.compile(r".*_spec\.rb"),
}
"""By the name of what runs tests those that it finds by itself."""
_LAUNCHING = frozenset(
    {"npx", "yarn", "pnpm", "bunx", "uv", "uvx", "poetry", "pipenv", "pipx", "hatch", "pdm", "rye", "bundle",
     "coverage", "run", "exec", "-m"}
)  # fmt: skip
"""Words that may stand before it."""
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")


def collectors_of(name: str) -> list[str]:
    """What runs a file of this name, in lower case, as a test that it finds by itself.

    >>> collectors_of("test_a.py")[0], collectors_of("data.json")
    ('pytest', [])
    """
    return [runner for runner, pattern in _COLLECTED.items() if pattern.fullmatch(name)]


def collects(words: Sequence[str], file: Named) -> bool:
    """Whether a command runs the file as a test: it is among those that it names, or it names none.

    >>> collects(["pytest", "-q"], Named.of("tests/test_a.py"))
    True
    >>> collects(["pytest", "test_b.py::test"], Named.of("tests/test_a.py"))
    False
    """
    for at, word in enumerate(words):
        verb = PurePosixPath(word).name.casefold()
        if verb in _COLLECTED:
            given = [_path(operand) for operand in words[at + 1 :]]
            if any(file.is_named(path) for path in given):
                return True
            names_others = any(PurePosixPath(path).suffix.casefold() == file.end for path in given if path)
            return not names_others and _COLLECTED[verb].fullmatch(file.name) is not None
        if word not in _LAUNCHING and _PYTHON.fullmatch(verb) is None:
            return False
    return False


def _path(word: str) -> str:
    """What an operand names, without the part of the file that is meant; nothing for an option."""
    return "" if word.startswith("-") else word.partition("::")[0]
