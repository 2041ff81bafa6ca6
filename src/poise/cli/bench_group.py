"""`poise bench` measures, unless the first word is one of its commands."""

from __future__ import annotations

import click


class BenchGroup(click.Group):
    """A group whose first command is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)
