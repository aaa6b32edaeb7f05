"""The arguments of commands: the plan that one names, the values of `--var` and `--secret`, who acts."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet import lazy
from callsheet.api.texts import read_text, unreadable
from callsheet.apps.cli.output import is_terminal, to_stderr
from callsheet.diagnostics import CallsheetError, Source
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.apps.operations import library, reading
    from callsheet.apps.operations.reading import PlanText
    from callsheet.frontends.spelling import Syntax
    from callsheet.ir import Plan
    from callsheet.store.library import PlanLibrary
else:
    library = lazy.deferred("callsheet.apps.operations.library")
    reading = lazy.deferred("callsheet.apps.operations.reading")


_ID = lazy.pattern(r"(?!.*\.(?:ltp|micro|json|ya?ml)\Z)[a-z0-9][a-z0-9._-]*(?:@.*)?\Z", re.ASCII)
"""The syntax of a plan id: no slash, and no suffix of a plan file."""
_FUNCTION = lazy.pattern(r"(.+\.py):([^\W\d]\w*)")
_ASYNC = lazy.pattern(r"^async def ", re.MULTILINE)
_TOOL = lazy.pattern(r"^@(?:\w+\.)?tool\b", re.MULTILINE)
STDIN = "-"
_PYTHON = ".py"
_PLAN_SUFFIXES = (".ltp", ".micro", ".dag.json", ".dag.yaml", ".dag.yml")
"""How the names of files end that are plans wherever they are."""
_INSTALLED = frozenset({"site-packages", "node_modules"})
"""The folders of installed packages."""


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """A plan named on the command line: a file, `-`, or an id of the library in the folder.

    If `syntax` is set, the name is always that of a file.
    """

    plan: str
    syntax: Syntax | None
    plans_folder: Path | None = None

    def read(self, variables: Iterable[str] = ()) -> PlanText:
        """The text with its plan, if it is valid. Raises CallsheetError (CFG012) if it cannot be read."""
        if self.syntax is None and _ID.match(self.plan):
            return read_named(self.plan, self.plans_folder, variables)
        return read_plan(self.plan, syntax=self.syntax, variables=variables)


def read_plan(
    argument: str,
    *,
    syntax: Syntax | None = None,
    strict: bool = False,
    variables: Iterable[str] = (),
) -> PlanText:
    """The plan that an argument names.

    `syntax` is the syntax, None to detect it from the suffix or the text. `strict` makes loose spellings
    errors. `variables` are the names of variables that the run will be given.

    Raises CallsheetError (CFG012) if the text cannot be read. Errors in the text are part of the result.
    """
    file, function = function_of(argument)
    path = None if argument == STDIN else Path(file)
    source = Source("<stdin>" if path is None else file, _read_plan_input(path))
    return reading.text_of(path, source, syntax=syntax, strict=strict, variables=variables, function=function)


def function_of(argument: str) -> tuple[str, str | None]:
    """The file that an argument names, and the function of it: `FILE.py:FUNCTION`."""
    found = _FUNCTION.fullmatch(argument)
    if found is None or os.path.exists(argument):
        return argument, None
    return found[1], found[2]


def named_plans(
    names: Iterable[str], project: Iterable[str] = (), tell: Callable[[str], None] = to_stderr
) -> tuple[str, ...]:
    """The plans that arguments name: a folder stands for all plans in it, a pattern for its matches.

    A Python file with several functions with `@plan` stands for each of them. Without arguments these are
    the plans of the `project`. A folder or pattern without plans stands for itself, which cannot be read.
    Python files in a folder that may be meant as plans and are none are named by `tell`. Raises
    click.UsageError if there is nothing to take.
    """
    given = tuple(names) or tuple(project)
    if not given:
        raise click.UsageError('missing argument PLAN; a project names its plans: plans = ["plans"]')
    files = dict.fromkeys(file for name in given for file in _plans_at(name, tell))
    return tuple(plan for file in files for plan in _plans_in(file))


def _plans_in(file: str) -> Iterable[str]:
    if not file.endswith(_PYTHON) or not os.path.isfile(file):
        return (file,)
    from callsheet.frontends.python import functions_marked  # noqa: PLC0415 - only where there is Python

    try:
        names = functions_marked(Path(file).read_text("utf-8-sig", "replace"))
    except OSError:  # whoever reads the plan says why
        return (file,)
    return [f"{file}:{name}" for name in names] if len(names) > 1 else (file,)


def is_plan_file(name: str, read: Callable[[], bytes]) -> bool:
    """Whether a file is a plan by its name, or by what it has if that ends in `.py`: `read` gives it.

    A Python file says that it is a plan by `async def main` or a function with `@plan`.
    """
    if name.endswith(_PYTHON):
        from callsheet.frontends.spelling import is_python_plan  # noqa: PLC0415 - only where there is Python

        return is_python_plan(read().decode("utf-8-sig", "replace"))
    return name.endswith(_PLAN_SUFFIXES)


def _plans_at(name: str, tell: Callable[[str], None]) -> list[str]:
    found: list[str] = []
    if os.path.isdir(name):
        named = (each for each in Path(name).rglob("*") if each.name.endswith((*_PLAN_SUFFIXES, _PYTHON)))
        files = sorted(each for each in named if each.is_file())
        found = [str(file) for file in files if _is_taken(file, file.relative_to(name).parts, tell)]
    elif any(char in name for char in "*?[") and not os.path.isfile(name):
        import glob  # noqa: PLC0415 - only for patterns that the shell has left

        found = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
    return found or [name]


def _is_taken(file: Path, parts: tuple[str, ...], tell: Callable[[str], None]) -> bool:
    """Whether a file of a folder, with its path in that as `parts`, is a plan.

    No Python file is one that is hidden or belongs to an installed package. One that cannot be read is
    taken: whoever reads it says why.
    """
    if not file.name.endswith(_PYTHON):
        return True
    if any(part.startswith(".") or part in _INSTALLED for part in parts):
        return False
    try:
        content = file.read_bytes()
    except OSError:
        return True
    if is_plan_file(file.name, lambda: content):
        return True
    if _may_be_meant(content.decode("utf-8", "replace")):
        said = "in a folder, a plan in Python has async def main, or @plan; name it to take it"
        tell(f"{file} is left out: {said}")
    return False


def _may_be_meant(text: str) -> bool:
    """Whether a Python file may be meant as a plan without saying so: it has async functions and no tools."""
    return _ASYNC.search(text) is not None and _TOOL.search(text) is None


def try_read_plan(
    argument: str, *, syntax: Syntax | None = None, strict: bool = False, variables: Iterable[str] = ()
) -> PlanText:
    """As `read_plan`, but a text that cannot be read is a diagnostic in the result."""
    try:
        return read_plan(argument, syntax=syntax, strict=strict, variables=variables)
    except CallsheetError as error:
        return reading.PlanText(None, Source(argument, ""), None, error.diagnostics)


def _read_plan_input(path: Path | None) -> str:
    name = "standard input" if path is None else str(path)
    help_text = "give a file, or - for standard input"
    try:
        if path is None and sys.stdin is None:
            raise unreadable(name, "it is closed", help_text)
        if path is None:
            return read_text(sys.stdin.buffer, name, help_text)
        with path.open("rb") as file:
            return read_text(file, name, help_text)
    except IsADirectoryError as error:
        files = (
            f"it has no plan; name files, for example with the pattern {shlex.quote(name)}/*.json. Plans in a"
            f" folder end in {', '.join(_PLAN_SUFFIXES)}, or are Python files with async def main or @plan"
        )
        raise unreadable(name, "it is a folder", files) from error
    except OSError as error:
        raise unreadable(name, error.strerror or str(error), help_text) from error


def open_library(folder: Path | None) -> PlanLibrary:
    """The library in a folder; by default the user's."""
    from callsheet.store import library  # noqa: PLC0415 - not for --help

    return library.open_library(folder)


def read_named(name: str, folder: Path | None, variables: Iterable[str] = ()) -> PlanText:
    """The plan of a name, which is that of a file or an id of the library; a file has precedence.

    Raises CallsheetError: CFG012 if it is neither, and the errors of the library.
    """
    if _is_file(name):
        if not Path(name).suffix and name in open_library(folder).ids():
            to_stderr(f"{name} is a file; to run the plan of the library: callsheet plan run {name}")
        return read_plan(name, variables=variables)
    try:
        stored = open_library(folder).load(name)
    except CallsheetError as error:
        if error.diagnostics[0].code not in ("PLN001", "PLN002"):
            raise
        raise _not_found(name, error) from error
    return library.text_of_stored(stored, variables)


def _is_file(name: str) -> bool:
    """Whether the name is that of a file, even one without read permission: reading it reports the reason."""
    try:
        return not stat.S_ISDIR(os.stat(name).st_mode)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    except ValueError:  # a null character, which file names cannot contain
        return False


def _not_found(name: str, error: CallsheetError) -> CallsheetError:
    diagnostic = error.diagnostics[0]
    more = f"; {diagnostic.help}" if diagnostic.code == "PLN002" and diagnostic.help else ""
    help_text = f"give a file, the id of a plan of the library, or - for standard input{more}"
    if diagnostic.message.startswith("more than one"):
        return CallsheetError.single(
            "CFG012", f"{name} is not a file, and {diagnostic.message}", help=help_text
        )
    message = f"{name} cannot be read: there is no such file, and no plan of this id in the library"
    return CallsheetError.single("CFG012", message, help=help_text)


_NAME = lazy.pattern(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def parse_variables(
    assignments: Iterable[str], option: str = "--var", *, placed: bool = False
) -> dict[str, Any]:
    """The variables of an option by name. Raises CallsheetError (CFG011) for an invalid or repeated one.

    Names may be `placed` in an item or sub-plan of a run, as in `S2[4]/left`.

    >>> parse_variables(["n=3", "city=Oslo", 'tags=["a"]', "empty="])
    {'n': 3, 'city': 'Oslo', 'tags': ['a'], 'empty': ''}
    """
    values: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise _error(f"{option} {text[:60]!r} has no =", f"write {option} name=value")
        place, slash, name = name.rpartition("/") if placed else ("", "", name)
        name = place.strip().removeprefix("$") + slash + parse_name(option, name)
        if name in values:
            raise _error(f"{option} gives {name} twice", "give each variable once")
        values[name] = parse_value(f"{option} {name}", value)
    return values


def as_declared(plan: Plan | None, inputs: dict[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """The variables as the inputs of a plan of version 2 want them: where one is a text, as it was typed.

    `assignments` are those of `parse_variables`, which reads `id=7` as a number.
    """
    if plan is None or plan.tree is None:
        return inputs
    from callsheet.ir.inputs import takes_text  # noqa: PLC0415 - only for version 2

    typed = {
        name.strip().removeprefix("$"): raw for name, _, raw in (one.partition("=") for one in assignments)
    }
    texts = {
        one.name: typed[one.name] for one in plan.tree.inputs if one.name in typed and takes_text(one.type)
    }
    return inputs | texts


def warn_of_typed_secrets(plans: Iterable[Plan | None], typed: Iterable[str], *, runs: bool = True) -> None:
    """Say which secret inputs are `typed` in the command line, where others can read them.

    A command that only looks at plans, and `runs` none, needs no value of theirs.
    """
    declared = {
        each.name
        for plan in plans
        if plan is not None and plan.tree is not None
        for each in plan.tree.inputs
        if each.is_secret
    }
    for name in typed:
        if name in declared:
            way_out = f"use --secret {name}=env:…" if runs else "leave it out, no value is needed here"
            to_stderr(f"warning: ${name} is a secret, and others can read --var: {way_out}")


def parse_name(option: str, text: str) -> str:
    """The name of a variable without `$`. Raises CallsheetError (CFG011) for an invalid name."""
    name = text.strip().removeprefix("$")
    if not _NAME.match(name):
        raise _error(
            f"{option}: {name[:60]!r} is not a variable name",
            "a name consists of ASCII letters, digits and _, and does not start with a digit",
        )
    return name


def parse_value(option: str, raw: str) -> Any:
    """The JSON value of a text, otherwise the text itself; NaN and infinities are texts."""
    twice: list[str] = []

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        if len(parsed) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.extend(key for key in parsed if keys.count(key) > 1)
        return parsed

    from callsheet.ir.strict_json import finite, refuse_constant  # noqa: PLC0415 - not for --help

    text = _decoded(option, raw)
    try:
        value = json.loads(
            text, parse_float=finite, parse_constant=refuse_constant, object_pairs_hook=as_dict
        )
    except (ValueError, RecursionError):
        return text
    if twice:
        raise _error(f"{option} gives the key {twice[0][:60]!r} twice", "give each key of an object once")
    return value


def _decoded(option: str, raw: str) -> str:
    """The value as UTF-8 text, independent of the locale."""
    try:
        return os.fsencode(raw).decode("utf-8")
    except UnicodeError:
        raise _error(f"the value of {option} is not UTF-8 text", "encode it as UTF-8") from None


def _error(message: str, help_text: str) -> CallsheetError:
    return CallsheetError.single("CFG011", message, help=help_text)


_MAX_BYTES = 1_000_000
_FORMS = "env:VARIABLE nor file:PATH nor -"


def read_secrets(assignments: Iterable[str], variables: Mapping[str, object] = {}) -> dict[str, str]:
    """The secrets of `--secret` by name. Raises CallsheetError (SEC005) for one that cannot be read.

    `variables` are the other inputs of the run.
    """
    values: dict[str, str] = {}
    for text in assignments:
        name, equals, source = text.partition("=")
        name = parse_name("--secret", name)
        if not equals:
            raise _secret_error(f"--secret {name} has no source", f"write --secret {name}=env:{name.upper()}")
        if name in values or name in variables:
            raise _secret_error(f"{name} is given twice", "give each variable once: by --secret or by --var")
        secret = _read_assignments(name, source)
        if not secret:
            raise _secret_error(
                f"the secret {name} is empty", "check the variable or file that it is read from"
            )
        values[name] = secret
    return values


def _read_assignments(name: str, source: str) -> str:
    if source == "-":
        return _prompt(name)
    kind, _, what = source.partition(":")
    if kind == "env" and what:
        value = os.environ.get(what)
        if value is None:
            raise _secret_error(f"--secret {name}: the environment variable {what[:60]} is not set", "set it")
        return value
    if kind == "file" and what:
        return _read_file(name, Path(what).expanduser())
    raise _secret_error(
        f"--secret {name} is neither {_FORMS}",
        f"put the secret into a variable or a file: --secret {name}=env:{name.upper()}",
    )


def _prompt(name: str) -> str:
    if is_terminal(sys.stdin):
        return str(click.prompt(f"secret {name}", hide_input=True, err=True, default="", show_default=False))
    data = sys.stdin.buffer.read(_MAX_BYTES + 1) if sys.stdin is not None else b""
    return _text(name, data, "standard input")


def _read_file(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _secret_error(
            f"--secret {name}: {path} cannot be read: {error.strerror}", "name a readable file"
        ) from None
    return _text(name, data, str(path))


def _text(name: str, data: bytes, source: str) -> str:
    if len(data) > _MAX_BYTES:
        raise _secret_error(f"--secret {name}: {source} contains more than 1 MB", "a secret is a short text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _secret_error(f"--secret {name}: {source} is not UTF-8 text", "a secret is a text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _secret_error(message: str, help_text: str) -> CallsheetError:
    return CallsheetError.single("SEC005", message, help=help_text)


def actor_name(option: str | None = None) -> str:
    """The name of the person who acts: the option, else that of the user, "" if the system has none."""
    import getpass  # noqa: PLC0415 - only where somebody acts

    if option is not None:
        return option
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no entry
        return ""
