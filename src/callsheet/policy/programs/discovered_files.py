"""Files that programs run without being given them: test runners and compilers find them by name.

Files that are executed because of their own name (`Makefile`, `conftest.py`) are in `policy/runnable.py`;
untrusted content is never written there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from callsheet.policy.programs.commands import verb_of
from callsheet.policy.programs.file_matching import Named


class DiscoveryRule(NamedTuple):
    """A kind of files and the programs that find them.

    With `is_spared`, a program skips these files if it is given others; with `on_request`, it finds them only
    if its arguments mention tests.
    """

    programs: frozenset[str]
    paths: re.Pattern[str]
    is_spared: bool = False
    on_request: bool = False


_SCRIPT = r"[cm]?[jt]sx?"
_PYTHON_TESTS = r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py"
_SCRIPT_TESTS = rf"(?:.*/)?(?:[^/]*[._-](?:test|spec)|test|spec)\.{_SCRIPT}|(?:.*/)?__tests__/.*\.{_SCRIPT}"
_OTHER_TESTS = r"(?:.*/)?[^/]*_(?:spec|test)\.(?:rb|exs|lua|dart)|(?:.*/)?[^/]*test\.(?:php|t)|.*\.bats"
_ANY_TEST = f"{_PYTHON_TESTS}|{_SCRIPT_TESTS}|{_OTHER_TESTS}"


def _found(programs: str, paths: str, *, is_spared: bool = False, on_request: bool = False) -> DiscoveryRule:
    return DiscoveryRule(frozenset(programs.split()), re.compile(paths), is_spared, on_request)


_KINDS: tuple[DiscoveryRule, ...] = (
    _found("pytest py.test nosetests nose2 tox nox green ward trial behave", _PYTHON_TESTS, is_spared=True),
    _found("unittest", r"(?:.*/)?test[^/]*\.py", is_spared=True),
    _found(
        "pytest py.test nosetests nose2 tox nox unittest green ward trial behave",
        r"(?:.*/)?(?:conftest|__init__)\.py|(?:.*/)?steps/[^/]*\.py",
    ),
    _found("jest vitest mocha ava jasmine tap playwright cypress karma wtr", _SCRIPT_TESTS, is_spared=True),
    _found("mocha jasmine", rf"(?:.*/)?(?:test|spec)/.*\.{_SCRIPT}", is_spared=True),
    _found("rspec", r"(?:.*/)?[^/]*_spec\.rb", is_spared=True),
    _found("phpunit pest paratest", r"(?:.*/)?[^/]*test\.php", is_spared=True),
    _found("bats prove", r".*\.(?:bats|t)", is_spared=True),
    _found("busted", r"(?:.*/)?[^/]*_spec\.lua", is_spared=True),
    _found("cargo", r".*\.rs"),
    _found("go", r".*\.go"),
    _found(
        "mvn mvnw gradle gradlew sbt ant bazel bazelisk buck2 pants",
        r".*\.(?:java|kts?|scala|groovy|bzl|bazel)",
    ),
    _found("dotnet msbuild", r".*\.(?:cs|fs|vb|csproj|fsproj|vbproj|targets|props)"),
    _found("swift", r".*\.swift"),
    _found("mix", r".*\.exs?"),
    _found("rake", r".*\.rake"),
    _found("node deno bun", _SCRIPT_TESTS, on_request=True),
    _found(
        "make gmake just task npm yarn pnpm invoke inv poe hatch pdm rake composer mix gradle mvn bazel rails"
        " manage.py pre-commit ctest ninja",
        _ANY_TEST,
        on_request=True,
    ),
)
_BY_PROGRAM: Mapping[str, tuple[DiscoveryRule, ...]] = {
    program: tuple(kind for kind in _KINDS if program in kind.programs)
    for program in sorted({program for kind in _KINDS for program in kind.programs})
}
_SPEAKS_OF_TESTS = re.compile(
    r"(?:--?)?(?:t|tst|it|.*(?:test|check|spec|verify|coverage|\bci\b|\ball\b).*)", re.IGNORECASE
)
_TAKING = frozenset(
    {"-k", "-m", "-n", "-o", "-c", "-p", "-W", "-t", "-g", "-R", "-s", "-e", ">", ">>", "<", "--rootdir",
     "--config", "--maxfail", "--cov", "--reporter", "--outputFile", "--tb"}
)  # fmt: skip
"""Options of these programs, and redirections, that take the following word."""


def kinds_of(file: Named) -> tuple[DiscoveryRule, ...]:
    """The kinds that a file belongs to.

    >>> "pytest" in kinds_of(Named.of("src/test_a.py"))[0].programs, kinds_of(Named.of("data.json"))
    (True, ())
    """
    return tuple(kind for kind in _KINDS if kind.paths.fullmatch(file.path))


def finders_of(file: Named) -> frozenset[str]:
    """The programs that may run a file without being given it."""
    return frozenset[str]().union(*(kind.programs for kind in kinds_of(file)))


def finds(words: Sequence[str], file: Named) -> bool:
    """Whether a command runs a file that it need not name.

    It does if it names the file, names no files, or finds the file regardless of what it names.

    >>> finds(["pytest", "-q"], Named.of("tests/test_a.py")), finds(["make", "docs"], Named.of("test_a.py"))
    (True, False)
    >>> finds(["pytest", "test_b.py::test"], Named.of("tests/test_a.py"))
    False
    """
    kinds = _BY_PROGRAM.get(verb_of(words[0]), ())
    if not kinds:
        return False
    if any(
        kind.paths.fullmatch(file.path) and _is_asked(kind, words) and not kind.is_spared for kind in kinds
    ):
        return True
    operands = list(_operands(words[1:]))
    if any(kind.is_spared for kind in kinds) and any(_names(operand, file) for operand in operands):
        return True
    return any(kind.paths.fullmatch(file.path) for kind in kinds if kind.is_spared) and not _all_files(
        operands, file
    )


def _is_asked(kind: DiscoveryRule, words: Sequence[str]) -> bool:
    return not kind.on_request or any(_SPEAKS_OF_TESTS.fullmatch(word) for word in words[1:])


def _operands(words: Sequence[str]) -> Iterator[str]:
    """The operands of a command, without selectors of parts of a file (`::`)."""
    before = ""
    for word in words:
        if not word.startswith(("-", "<", ">")) and before not in _TAKING:
            yield word.partition("::")[0]
        before = word


def _names(operand: str, file: Named) -> bool:
    """Whether an operand is the file, as a path, a module or a glob."""
    return file.is_named(operand) or file.stem in operand.casefold().split(".")


def _all_files(operands: Sequence[str], file: Named) -> bool:
    """Whether all operands are files of the same type as the file, rather than folders containing it."""
    return bool(operands) and all(
        PurePosixPath(operand).suffix.casefold() == file.end for operand in operands
    )
