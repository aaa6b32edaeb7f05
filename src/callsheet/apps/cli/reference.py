"""The commands that print reference: the page of a code, JSON Schemas, shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from callsheet.apps.cli.output import print_json
from callsheet.apps.operations.texts import explain_code
from callsheet.diagnostics import meant


@click.command()
@click.argument("code")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def explain(code: str, as_json: bool) -> None:
    """Explain the diagnostic CODE or LCTL rule: its meaning, an example and the fix.

    \b
    Example:
      callsheet explain LTP012
    """
    explanation = explain_code(code)
    if as_json:
        print_json(explanation)
    else:
        click.echo(explanation["page"].rstrip())


@click.command()
@click.argument("words", metavar="[dag|plan|COMMAND]", nargs=-1)
def schema(words: tuple[str, ...]) -> None:
    """Print a JSON Schema: dag of plans as graphs, plan of version 2, COMMAND of what it prints with --json.

    The first two are the same as docs/dag.schema.json and docs/plan.schema.json.

    \b
    Examples:
      callsheet schema plan
      callsheet schema plan diff
      callsheet schema run
    """
    name = " ".join(words) or "dag"
    if name not in ("dag", "plan"):
        from callsheet.apps.operations.printed import PRINTED, printed_schema  # noqa: PLC0415 - not for --help

        if name not in PRINTED:
            known = ("dag", "plan", *PRINTED)
            ways = meant(name, known, f"there are {', '.join(known)}")
            raise click.UsageError(f"there is no schema {name[:80]!r}; {ways}")
        print_json(printed_schema(name))
        return
    if name == "plan":
        from callsheet.frontends.structured.json_form import structured_schema  # noqa: PLC0415 - not for --help

        print_json(structured_schema())
        return
    from callsheet.frontends.dag import json_schema  # noqa: PLC0415 - not for --help

    print_json(json_schema())


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: add to ~/.bashrc   eval "$(callsheet completion bash)"
    zsh:  add to ~/.zshrc    eval "$(callsheet completion zsh)"
    fish: callsheet completion fish > ~/.config/fish/completions/callsheet.fish
    """
    group = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(group, {}, "callsheet", "_CALLSHEET_COMPLETE").source())
