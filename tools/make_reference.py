"""Write docs/reference/ from the code: every setting with its default, and every command with its options.

python tools/make_reference.py           write
python tools/make_reference.py --check   fail when what is committed is not what the code says
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make docs` from the code; edit it there. -->\n\n"
# Table in poise.toml of each record of poise.config.
TABLES = {
    "Config": "Top level of the file",
    "ServerSettings": "`[server]`",
    "ModelConfig": "`[models.NAME]`",
    "BatchSettings": "`[models.NAME.batching]`",
}
# Fields that are tables themselves, and the name, which is part of its table's.
NOT_KEYS = {"server", "models", "batching", "name"}


def main() -> int:
    """Write or compare, as asked; importing happens here so that a broken module is reported by name."""
    pages = {
        "configuration.md": configuration(importlib.import_module("poise.config")),
        "command-line.md": command_line(importlib.import_module("poise.cli")),
        "tensorflow-serving-flags.md": serving_flags(importlib.import_module("poise.cli.tfs_flags")),
    }
    if "--check" in sys.argv[1:]:
        stale = [name for name, text in pages.items() if read(REFERENCE / name) != text]
        if stale:
            print(f"docs/reference: {', '.join(stale)} not what the code says; run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (REFERENCE / name).write_text(text)
    return 0


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def configuration(module: ModuleType) -> str:
    """One table of settings for each record, in the order in which TOML nests them."""
    sections = [f"# Configuration\n\n{NOTE}`poise serve --config FILE` reads one TOML file; flags override it.\n"]
    docs = field_docs(module)
    for name, table in TABLES.items():
        record = getattr(module, name)
        sections.append(f"\n## {table}\n\n{inspect.getdoc(record)}\n\n| key | default | meaning |\n|---|---|---|\n")
        keys = [field for field in dataclasses.fields(record) if field.name not in NOT_KEYS]
        sections += [setting(field, docs[name, field.name]) for field in keys]
    return "".join(sections)


def setting(field: dataclasses.Field[object], doc: str) -> str:
    text = " ".join(doc.split()).replace("|", "\\|")
    return f"| `{field.name}` | {default_of(field)} | {text} |\n"


def default_of(field: dataclasses.Field[object]) -> str:
    """As it would be written in TOML; what depends on the machine is told in the field's sentence."""
    if field.default_factory is not dataclasses.MISSING:
        return "`{}`" if field.default_factory is dict else "by the machine"
    if field.default is dataclasses.MISSING:
        return "required"
    return f"`{toml(field.default)}`"


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return f"{list(value)}" if isinstance(value, tuple) else f"{value}"


def field_docs(module: ModuleType) -> dict[tuple[str, str], str]:
    """The string that follows each field of each class: Python keeps it in the source only."""
    found = {}
    for record in ast.parse(inspect.getsource(module)).body:
        if isinstance(record, ast.ClassDef):
            for field, after in zip(record.body, record.body[1:], strict=False):
                match field, after:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                        found[record.name, name] = doc
    return found


def command_line(module: ModuleType) -> str:
    """The help of every command, as a terminal of 100 columns shows it."""
    sections = [f"# Command line\n\n{NOTE}"]
    sections += [f"## {title}\n\n```text\n{text}\n```\n\n" for title, text in helps(module.main, "poise")]
    return "".join(sections).rstrip("\n") + "\n"


def serving_flags(module: ModuleType) -> str:
    """One table of flags for each group of `poise tfserving`."""
    sections = [f"# Flags of `poise tfserving`\n\n{NOTE}A flag is written `--name=value`, or `--name value`.\n"]
    for title, flags in module.GROUPS.items():
        sections.append(f"\n## {title}\n\n| flag | default | here |\n|---|---|---|\n")
        for flag in flags:
            text = f"No effect: {flag.unused}." if flag.unused else flag.help
            sections.append(f"| `{flag.name}` | `{module.shown_default(flag)}` | {text} |\n")
    return "".join(sections)


def helps(command: click.Command, path: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    context = command.context_class(command, info_name=path.rpartition(" ")[2], parent=parent, max_content_width=100)
    context.terminal_width = 100
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found and not found.hidden:
                yield from helps(found, f"{path} {name}", context)


if __name__ == "__main__":
    sys.exit(main())
