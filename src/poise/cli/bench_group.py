"""`poise bench` measures, unless the first word is one of its commands."""

from __future__ import annotations

import click


class BenchGroup(click.Group):
    """A group whose first command is meant where none is named. A command may be written as an option, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("--") and args[0][2:] in self.commands:
            args = [args[0][2:], *args[1:]]
        if not args or args[0] not in self.commands:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)
