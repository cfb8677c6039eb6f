# SPDX-License-Identifier: Apache-2.0
"""A click group that imports a command when it runs, and prints errors as sentences, not as tracebacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from nicemu.errors import NicemuError

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C has ended, as shells have it: 128 and the number of SIGINT."""


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is defined, as "module:attribute", and what `--help` says of it unimported."""

    place: str
    help: str
    hidden: bool = False


class LazyGroup(click.Group):
    """A group of LazyCommands.

    Exit status: 1 for what the user's files or machine did wrong, 2 for how the command was called, 130 for
    what Ctrl-C has ended.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are shown."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or None if there is none of that name."""
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant. Raises: click.UsageError, with the nearest there is."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self._shown(), 1)
            if not near or "did you mean" in error.message.lower():
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name].help) for name in self._shown()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with `incomplete`."""
        names = [name for name in self._shown() if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._lazy[name].help) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as in click
        """Run the command.

        Raises: click.ClickException, exit status 1, for a NicemuError, and for an OSError that names a file.
        """
        try:
            return super().invoke(ctx)
        except NicemuError as error:
            code = getattr(error, "code", None)  # of a refused request of the control plane
            told = f"{code.name} ({int(code)}): {error}" if isinstance(code, IntEnum) else str(error)
            raise click.ClickException(told) from error
        except OSError as error:
            if error.filename is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error
        except KeyboardInterrupt:
            click.echo(err=True)  # the shell's next line begins behind the terminal's ^C
            raise click.exceptions.Exit(INTERRUPTED) from None

    def _shown(self) -> list[str]:
        return [name for name, entry in self._lazy.items() if not entry.hidden]
