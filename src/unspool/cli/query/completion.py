"""`unspool completion`: prints the script that completes commands, options and session ids in a shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options and session ids.

    \b
    bash: echo 'eval "$(unspool completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(unspool completion zsh)"' >> ~/.zshrc
    fish: unspool completion fish > ~/.config/fish/completions/unspool.fish
    """
    from click.shell_completion import get_completion_class

    from unspool.cli.main import unspool

    complete = get_completion_class(shell)
    assert complete is not None
    script = complete(unspool, {}, "unspool", "_UNSPOOL_COMPLETE")
    # Not `source()`: it starts a shell to check its version.
    click.echo(script.source_template % script.source_vars())
