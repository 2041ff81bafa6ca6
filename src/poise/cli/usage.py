"""What commands that talk to a server have in common: wrong use of them exits with 1."""

from __future__ import annotations

import click


class WrongUse(click.UsageError):
    """Wrong use of a command, with exit status 1."""

    exit_code = 1


class UsageCommand(click.Command):
    """A command whose wrong use exits with 1, like everything else that goes wrong in it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise WrongUse(error.format_message(), ctx) from None


SCHEMES = ("grpc://", "grpcs://", "http://", "https://")


def check_target(_context: click.Context, _option: click.Parameter, target: str | None) -> str | None:
    """A target has a scheme that is known; the rest is the data plane's to check."""
    if target is None or target.startswith(SCHEMES):
        return target
    raise click.BadParameter(
        f"expected grpc://HOST:PORT or http://HOST:PORT, with TLS grpcs:// or https://, got {target!r}"
    )
