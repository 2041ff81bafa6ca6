"""`python -m poise` is `poise`."""

from poise.cli import main

main(prog_name="poise")
