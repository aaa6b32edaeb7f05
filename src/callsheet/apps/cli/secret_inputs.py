"""`--secret NAME=WHERE`: reads secrets from their source, so that command lines contain none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from callsheet.apps.cli.assignments import parse_name
from callsheet.apps.cli.terminal import is_terminal
from callsheet.diagnostics import CallsheetError

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
            raise _error(f"--secret {name} has no source", f"write --secret {name}=env:{name.upper()}")
        if name in values or name in variables:
            raise _error(f"{name} is given twice", "give each variable once: by --secret or by --var")
        secret = _read(name, source)
        if not secret:
            raise _error(f"the secret {name} is empty", "check the variable or file that it is read from")
        values[name] = secret
    return values


def _read(name: str, source: str) -> str:
    if source == "-":
        return _prompt(name)
    kind, _, what = source.partition(":")
    if kind == "env" and what:
        value = os.environ.get(what)
        if value is None:
            raise _error(f"--secret {name}: the environment variable {what[:60]} is not set", "set it")
        return value
    if kind == "file" and what:
        return _read_file(name, Path(what).expanduser())
    raise _error(
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
        raise _error(
            f"--secret {name}: {path} cannot be read: {error.strerror}", "name a readable file"
        ) from None
    return _text(name, data, str(path))


def _text(name: str, data: bytes, source: str) -> str:
    if len(data) > _MAX_BYTES:
        raise _error(f"--secret {name}: {source} contains more than 1 MB", "a secret is a short text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _error(f"--secret {name}: {source} is not UTF-8 text", "a secret is a text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _error(message: str, help_text: str) -> CallsheetError:
    return CallsheetError.single("SEC005", message, help=help_text)
