"""Write the reference pages from the code: commands, settings, the schema. `--check` fails where one is out of date."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer.main

from scrubjay import reading_settings, settings, store_settings
from scrubjay.cli import app
from scrubjay.server import settings as server_settings
from scrubjay.store.schema import MIGRATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click.core import Command

DOCS = Path(__file__).parents[1] / "docs"
GENERATED = "<!-- Written by tools/build_docs.py from the code; `make docs` renews it. -->"


def build_commands() -> str:
    """Give every command with its arguments and options."""
    lines = [
        GENERATED,
        "",
        "# Commands",
        "",
        "Data goes to standard output, everything else to standard error.",
    ]
    lines += ["Exit codes: 0, 1 (failed), 2 (usage)."]
    for name, command in walk_commands(typer.main.get_command(app), "scrubjay"):
        lines += ["", f"## `{name}`", "", (command.help or "").strip(), ""]
        lines += ["| | default | |", "|---|---|---|"]
        for parameter in command.params:
            names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
            if parameter.param_type_name == "argument":
                names = f"`{(parameter.name or '').upper()}`"
            default = (
                ""
                if parameter.default in (None, ...) or callable(parameter.default)
                else f"`{parameter.default}`"
            )
            lines.append(f"| {names} | {default} | {getattr(parameter, 'help', None) or ''} |")
    return "\n".join(lines) + "\n"


def walk_commands(command: Command, name: str) -> Iterator[tuple[str, Command]]:
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield name, command
        return
    for key in sorted(subcommands):
        yield from walk_commands(subcommands[key], f"{name} {key}")


def build_settings() -> str:
    """Give every field of every group, with the comment beside it."""
    lines = [
        GENERATED,
        "",
        "# Settings",
        "",
        "`Settings(relevance=RelevanceSettings(...), ...)`, or `Settings.preset(name)`.",
    ]
    for module in (settings, reading_settings, store_settings, server_settings):
        source = inspect.getsource(module)
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and dataclasses.is_dataclass(getattr(module, node.name)):
                lines += describe_group(node, source)
    return "\n".join(lines) + "\n"


def describe_group(node: ast.ClassDef, source: str) -> list[str]:
    """Give the table of one group's fields."""
    lines = ["", f"## {node.name}", "", ast.get_docstring(node) or "", ""]
    lines += ["| field | default | |", "|---|---|---|"]
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            lines.append(f"| `{item.target.id}` | {default_of(item)} | {comment_of(source, item)} |")
    return lines


def default_of(item: ast.AnnAssign) -> str:
    text = "" if item.value is None else ast.unparse(item.value)
    if text.startswith("field("):
        found = re.search(r"default_factory=(\w+)", text) or re.search(r"default=([^,)]+)", text)
        text = found[1] if found else ""
    return f"`{text}`"


def comment_of(source: str, item: ast.AnnAssign) -> str:
    line = source.splitlines()[(item.end_lineno or item.lineno) - 1]
    return line.partition("  # ")[2].replace("|", "\\|")


def build_schema() -> str:
    """Give the statements that make a memory's file, by migration."""
    lines = [GENERATED, "", "# Schema of a memory's file", ""]
    lines += ["One SQLite file in WAL mode. `PRAGMA user_version` is the number of the last migration."]
    connection = sqlite3.connect(":memory:")
    known: set[str] = set()
    for number, migration in enumerate(MIGRATIONS, start=1):
        migration(connection)
        lines += ["", f"## {number}: {migration.__name__}", "", inspect.getdoc(migration) or "", "", "```sql"]
        for (statement,) in connection.execute(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
        ):
            if statement not in known:
                known.add(statement)
                lines.append(inspect.cleandoc(statement) + ";")
        lines.append("```")
    return "\n".join(lines) + "\n"


PAGES = {"commands.md": build_commands, "settings.md": build_settings, "schema.md": build_schema}


def main() -> int:
    """Write the pages, or check them."""
    stale = []
    for name, build in PAGES.items():
        path, text = DOCS / name, build()
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            stale.append(name)
    for name in stale:
        print(f"docs/{name} is out of date: run `make docs`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
