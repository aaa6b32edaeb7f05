"""Values of `--var NAME=VALUE` and `--secret NAME=WHERE`: what is typed, and the value that it means."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet import lazy
from callsheet.apps.cli.terminal import is_terminal
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.ir import Plan

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
