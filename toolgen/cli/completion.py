"""Command `toolgen completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell.

    bash: eval "$(toolgen completion bash)" in ~/.bashrc. zsh: the same with zsh in ~/.zshrc. fish: toolgen completion fish | source.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(found(context.find_root().command, {}, "toolgen", "_TOOLGEN_COMPLETE").source())
