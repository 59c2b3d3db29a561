"""Pages whose text stands elsewhere: in files above this folder, the parser, classes, schemas.

Each has a file of a few words here, so that a toctree can name it. When Sphinx reads that file, the
page's text is put in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent.parent
# Files of the folder above that are pages of the site.
ABOVE = {
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "known-limits": "KNOWN_LIMITS.md",
    "threat-model": "THREAT_MODEL.md",
    "changes": "CHANGELOG.md",
}
LINK = re.compile(r"\]\((?!https?://|#)([^)\s]+)\)")


def plain(text: str) -> str:
    """Words that Markdown is to show as they are."""
    return re.sub(r"([\\`*_{}\[\]<>|$#])", r"\\\1", " ".join(text.split()))


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a page's text in its place, and lead links to files above to their pages."""
    if docname in ABOVE:
        path = DOCS.parent / ABOVE[docname]
        app.env.note_dependency(str(path))
        source[0] = LINK.sub(lambda link: f"]({_from_above(link[1])})", path.read_text("utf-8"))
    elif docname in MADE:
        app.env.note_reread()
        source[0] += "\n" + "\n".join(MADE[docname]())
    else:
        source[0] = LINK.sub(lambda link: f"]({_from_docs(link[1])})", source[0])


def _from_above(target: str) -> str:
    """A link in a file above, as seen from the folder docs."""
    return (
        target.removeprefix("docs/") if target.startswith("docs/") else _from_docs(f"../{target}")
    )


def _from_docs(target: str) -> str:
    path, _, anchor = target.partition("#")
    if not path.startswith("../"):
        return target
    folder, _, name = path.rpartition("../")
    if name == "README.md":
        return f"{folder}index.md"
    page = next((page for page, file in ABOVE.items() if file == name), None)
    return f"{folder}{page}.md" + (f"#{anchor}" if anchor else "") if page else target


def commands() -> Iterator[str]:
    """Every command with its arguments and options, as the parser has them."""
    import typer

    from gridveil.cli import app

    program = typer.main.get_command(app)
    yield from _command(program, "gridveil", top=True)


def _command(command: Any, name: str, *, top: bool = False) -> Iterator[str]:
    from typer import Context

    below = getattr(command, "commands", {})
    if not top:
        yield from (f"## {name}", "")
    for paragraph in (command.help or "").split("\n\n"):
        yield from (plain(paragraph), "")
    context = Context(command, info_name=name)
    yield from ("```text", " ".join((name, *command.collect_usage_pieces(context))), "```", "")
    heads = dict.fromkeys(getattr(one, "rich_help_panel", None) for one in command.params)
    for head in sorted(heads, key=lambda head: head is not None):  # those without one come first
        if head:
            yield from (f"**{plain(head)}**", "")
        for one in command.params:
            record = one.get_help_record(context)
            if record and getattr(one, "rich_help_panel", None) == head:
                yield from (f"`{record[0]}`", f": {plain(record[1])}", "")
    for key, other in below.items():
        yield from _command(other, f"{name} {key}")


def errors() -> Iterator[str]:
    """Every error that a user can meet, below the one that all of them are."""
    import gridveil.cli  # its modules define the errors
    import gridveil.dynamics.detailed.projection
    import gridveil.publication.signing
    import gridveil.publication.withdrawal
    from gridveil import GridveilError

    del gridveil

    def listed(kind: type[GridveilError], level: int) -> Iterator[str]:
        yield (
            "  " * level
            + f"- **{kind.__name__}** (`{kind.__module__}`, {_exit(kind)}): "
            + plain((kind.__doc__ or "").split("\n\n")[0])
        )
        for below in sorted(kind.__subclasses__(), key=lambda one: one.__name__):
            if below.__module__.startswith("gridveil."):
                yield from listed(below, level + 1)

    yield from listed(GridveilError, 0)


def _exit(kind: Any) -> str:
    return (
        "exit code 128 + signal"
        if kind.__name__ == "Interrupted"
        else f"exit code {kind.exit_code}"
    )


def schemas() -> Iterator[str]:
    """The fields of both documents of a bundle, as their JSON Schemas have them."""
    for name, title in (
        ("release-schema-1", "release.json"),
        ("certificate-schema-2", "certificate.json"),
    ):
        schema = json.loads((DOCS / f"{name}.json").read_text("utf-8"))
        yield from (f"## {title}", "", f"The JSON Schema is [{name}.json](../{name}.json).", "")
        yield from _fields(schema, title)
        for part, fields in schema.get("$defs", {}).items():
            yield from (f"### {part} of {title}", "", plain(fields.get("description", "")), "")
            yield from _fields(fields, title)


def _fields(schema: dict[str, Any], title: str) -> Iterator[str]:
    del title
    yield from ("| field | type | what it is |", "|---|---|---|")
    needed = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        kind = _kind(field) + ("" if name in needed else "; optional")
        yield f"| `{name}` | {plain(kind)} | {plain(field.get('description', ''))} |"
    yield ""


def _kind(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    if "const" in field:
        return f"always {json.dumps(field['const'], ensure_ascii=False)}"
    if "enum" in field:
        return "one of " + ", ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return (
            f"list of {_kind(field['items'])}" if isinstance(field.get("items"), dict) else "list"
        )
    if "type" in field:
        return field["type"]
    return " or ".join(dict.fromkeys(_kind(one) for one in field.get("anyOf", []))) or "any"


MADE: dict[str, Callable[[], Iterator[str]]] = {
    "reference/cli": commands,
    "reference/errors": errors,
    "reference/schemas": schemas,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx."""
    app.connect("source-read", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
