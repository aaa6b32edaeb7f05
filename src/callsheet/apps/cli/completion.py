"""`callsheet completion`: prints the shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


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
