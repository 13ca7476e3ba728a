"""The parts of the documents that the program knows better: commands, tables and fields. Run by cog (`make fix`)."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

if TYPE_CHECKING:
    from unspool.store.columns.tables import Table

FACTS = Path(__file__).parents[1] / "tests" / "format" / "facts" / "fields.tsv"


def commands() -> str:
    """Return the help of every command."""
    from unspool.cli.main import unspool

    context = click.Context(unspool, info_name="unspool", terminal_width=100, **unspool.context_settings)
    sections = [_help("unspool", unspool, context)]
    for name in unspool.list_commands(context):
        command = unspool.get_command(context, name)
        assert command is not None
        sections += _command_sections(f"unspool {name}", command, context)
    return "\n".join(sections)


def _command_sections(path: str, command: click.Command, parent: click.Context) -> list[str]:
    """Return the help of a command, and of the commands in it."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    sections = [_help(path, command, context)]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            sections += _command_sections(f"{path} {name}", inner, context)
    return sections


def tree() -> str:
    """Return every package and module with the first sentence of its docstring."""
    source = Path(__file__).parents[1] / "src" / "unspool"
    lines = ["```", *_branch(source, 0), "```"]
    return "\n".join(lines)


def _branch(folder: Path, depth: int) -> list[str]:
    """Return the lines of a folder: its modules, then its sub-folders."""
    lines = []
    packages = [path for path in sorted(folder.iterdir()) if (path / "__init__.py").exists()]
    for path in [*sorted(folder.glob("[!_]*.py")), *packages]:
        module = path if path.suffix else path / "__init__.py"
        name = "  " * depth + (path.name if path.suffix else f"{path.name}/")
        sentence = (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").splitlines()[0]
        lines += [f"{name:<34}{sentence}", *([] if path.suffix else _branch(path, depth + 1))]
    return lines


def tables() -> str:
    """Return the tables of SQL with their columns."""
    from unspool.store.columns.tables import public_tables

    return _tables(public_tables().values())


def lake_tables() -> str:
    """Return the tables that only a lake has, and by what each is partitioned."""
    from unspool.collect.lake.tables import DERIVED, partition_columns
    from unspool.collect.lake.tables import lake_tables as every

    by: dict[str, list[str]] = {}
    for name in every():
        by.setdefault(", ".join(f"`{one}`" for one in partition_columns(name)) or "nothing", []).append(f"`{name}`")
    told = [f"- Partitioned by {columns}: {', '.join(names)}." for columns, names in by.items()]
    return "\n".join([*told, "", _tables(table for name, table in every().items() if name not in DERIVED)])


def private_tables() -> str:
    """Return the tables of a lake that hold what people or Claude wrote."""
    from unspool.collect.lake.tables import private_tables as private

    return ", ".join(f"`{name}`" for name in private()) + "."


def _tables(tables: Iterable[Table]) -> str:
    sections = []
    for table in tables:
        rows = [f"| `{column.name}` | {column.type} | {column.comment} |" for column in table.columns]
        sections += [f"### {table.name}", "", table.comment, "", "| column | type | what |", "|---|---|---|", *rows, ""]
    return "\n".join(sections)


def records() -> str:
    """Return a table of the fields of every type of line."""
    from unspool.format.base import Envelope
    from unspool.format.records import KnownRecord

    shared = set(_names(Envelope))
    sections = [_table("any line", Envelope, shared)]
    for struct in sorted(get_args(KnownRecord), key=lambda struct: str(struct.__struct_config__.tag)):
        sections.append(_table(f"`{struct.__struct_config__.tag}`", struct, set(_names(struct)) - shared))
    return "\n".join(sections)


def kinds(union: object) -> str:
    """Return a table of kinds: blocks, attachments or progress."""
    structs = sorted(get_args(union), key=lambda struct: str(struct.__struct_config__.tag))
    rows = [f"| `{struct.__struct_config__.tag}` | {_words(struct)} | {_list(_names(struct))} |" for struct in structs]
    return "\n".join(["| kind | what | fields |", "|---|---|---|", *rows])


def tools() -> str:
    """Return every tool of the client: what it is for, what it is called with, what it leaves in the session."""
    from unspool.client.tools.registry import built_in_tools as every
    from unspool.format.tools.parse import RESULT_TYPES

    sections = []
    for tool in every():
        needed = tool.input_schema.get("required", [])
        rows = [
            f"| `{name}` | {_type(part)} | {'yes' if name in needed else ''} | {part.get('description', '')} |"
            for name, part in tool.input_schema["properties"].items()
        ]
        inputs = ["| input | type | needed | |", "|---|---|---|---|", *rows, ""] if rows else []
        results = [f"- {_words(shape)} {_list(_names(shape))}" for shape in RESULT_TYPES.get(tool.name, ())]
        beside = "Runs beside other calls." if tool.is_concurrent else "Runs alone."
        told = ["In the session (`toolUseResult`), some of these fields:", "", *results, ""] if results else []
        sections += [f"### {tool.name}", "", f"{tool.description} {beside}", "", *inputs, *told]
    return "\n".join(sections)


def rulings() -> str:
    """Return a table of what becomes of a call that no rule speaks of, in each mode."""
    from unspool.client.permissions.policy import PermissionPolicy
    from unspool.client.tool_context import ToolContext, Workspace
    from unspool.client.tools.registry import built_in_tools as every
    from unspool.permissions.settings import MODES

    root = Path("/nowhere/project")
    desk = ToolContext(Workspace(Path("/nowhere/config"), Path("/nowhere/config/projects/x"), "", root), {})
    given = {"file_path": "a", "notebook_path": "a", "pattern": "a", "command": "make", "url": "https://example.com"}
    judge = PermissionPolicy(root=root, trusted=True)
    rows = []
    for tool in every():
        input = {name: value for name, value in given.items() if name in tool.input_schema["properties"]}
        words = []
        for desk.mode in MODES:
            words.append(judge.judge(tool.name, input, desk).behaviour)
        rows.append(f"| {tool.name} | {' | '.join(words)} |")
    return "\n".join([f"| | {' | '.join(f'`{mode}`' for mode in MODES)} |", "|---" * (len(MODES) + 1) + "|", *rows])


def library() -> str:
    """Return every public name of the package with its signature and what it does."""
    import unspool

    objects = {name: getattr(unspool, name) for name in unspool.__all__}
    functions = {name: value for name, value in objects.items() if inspect.isfunction(value)}
    classes = {name: value for name, value in objects.items() if isinstance(value, type)}
    sections = ["## Functions", ""]
    for name, function in functions.items():
        sections += [f"### unspool.{name}{_signature(function)}", "", _paragraphs(function), ""]
    sections += ["## Classes", ""]
    for name, struct in classes.items():
        sections += [f"### unspool.{name}", "", _paragraphs(struct), "", *_members(struct), ""]
    return "\n".join(sections).rstrip()


def _members(struct: type[Any]) -> list[str]:
    """Return a list of what an object of a class has."""
    comments = _attribute_comments(struct)
    fields = [field.name for field in msgspec.structs.fields(struct)] if issubclass(struct, msgspec.Struct) else []
    fields = fields or list(getattr(struct, "_fields", ()))
    lines = [f"- `{name}`" + (f": {comments[name]}" if name in comments else "") for name in fields]
    lines += [f"- `{name}`: {text}" for name, text in comments.items() if name not in fields]
    for owner in reversed([base for base in struct.__mro__ if base.__module__.startswith("unspool.")]):
        for name, member in vars(owner).items():
            if name.startswith("_") or not _is_newest(struct, owner, name):
                continue
            if inspect.isfunction(member):
                lines.append(f"- `{name}{_signature(member)}`: {_sentence(member)}")
            elif isinstance(member, property | functools.cached_property):
                lines.append(f"- `{name}`: {_sentence(member)}")
    return lines


def _is_newest(struct: type[Any], owner: type[Any], name: str) -> bool:
    return next(base for base in struct.__mro__ if name in vars(base)) is owner


def _attribute_comments(struct: type[Any]) -> dict[str, str]:
    """Return the sentences that stand below the attributes of a class, and below those set in `__init__`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    assert isinstance(tree, ast.ClassDef)
    bodies = [tree.body, *(part.body for part in tree.body if isinstance(part, ast.FunctionDef))]
    comments = {}
    for body in bodies:
        for target, comment in itertools.pairwise(body):
            if not (isinstance(comment, ast.Expr) and isinstance(comment.value, ast.Constant)):
                continue
            targets = target.targets if isinstance(target, ast.Assign) else [getattr(target, "target", None)]
            for one in targets:
                name = one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else "_"
                if not name.startswith("_"):
                    comments[name] = " ".join(str(comment.value.value).split())
    return comments


def _signature(function: Any) -> str:
    """Return the parameters of a function, without their types."""
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in names and not any(n.startswith("*") for n in names):
            names.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        # A default that is not a plain value would print an address in memory, a new one in each run.
        is_plain = isinstance(parameter.default, str | int | float | None)
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}" if is_plain else "=…"
        names.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(names)})"


def _paragraphs(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def _sentence(thing: Any) -> str:
    return " ".join(_paragraphs(thing).split("\n\n")[0].split())


def _type(part: dict[str, Any]) -> str:
    if "enum" in part:
        return ", ".join(f"`{value}`" for value in part["enum"])
    if "items" in part:
        items = part["items"]
        inside = ", ".join(f"`{name}`" for name in items.get("properties", {})) or _type(items)
        return f"list of {inside}"
    if "anyOf" in part:
        return " or ".join(_type(one) for one in part["anyOf"])
    return str(part.get("type", "any"))


def _help(title: str, command: click.Command, context: click.Context) -> str:
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


def _table(title: str, struct: type[Any], names: set[str]) -> str:
    rows = [f"| `{name}` | {_seen(struct, name)} |" for name in _names(struct) if name in names]
    table = ["| field | first seen in |", "|---|---|", *rows] if rows else []
    return "\n".join([f"#### {title}", "", _words(struct), "", *table, ""])


def _words(struct: type[Any]) -> str:
    return " ".join((struct.__doc__ or "").split())


def _names(struct: type[Any]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(struct)]


def _list(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names if name != "cache_control")


def _seen(struct: type[Any], name: str) -> str:
    """Return the first version a field was seen in, a dash if only the program or others' writing knows it."""
    tag = struct.__struct_config__.tag
    versions = []
    for line in FACTS.read_text().splitlines()[1:]:
        record, field, version = line.split("\t")
        kind, _, rest = record.partition("/")
        if field == name and kind == (tag or kind) and "." not in rest:
            versions.append(version)
    return min(versions, key=_order, default="—")


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def json_documents() -> str:
    """Return the fields of every JSON document, and those of the objects inside."""
    from unspool.cli.documents.registry import DOCUMENTS, make_schema

    sections, known = [], set[str]()
    for name, document in DOCUMENTS.items():
        schema = make_schema(name)
        sections += [f"## {name}", "", (document.__doc__ or "").splitlines()[0], "", *_json_fields(schema), ""]
        for part, inner in schema.get("$defs", {}).items():
            if part not in known:
                known.add(part)
                sections += [f"### {part}", "", inner["description"], "", *_json_fields(inner), ""]
    return "\n".join(sections).rstrip()


def _json_fields(schema: dict[str, Any]) -> list[str]:
    optional = set(schema["properties"]) - set(schema.get("required", ()))
    rows = ["| field | type | meaning |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        kind = _json_type(field) + (", optional" if name in optional else "")
        meaning = f"`{field['const']}`." if "const" in field else field["description"]
        rows.append(f"| `{name}` | {kind} | {meaning} |")
    return rows


def _json_type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        part = field["$ref"].rpartition("/")[2]
        return f"[{part}](#{part.lower()})"
    if "anyOf" in field:
        return " or ".join(_json_type(one) for one in field["anyOf"])
    match field.get("type"):
        case "array":
            return f"list of {_json_type(field.get('items', {}))}"
        case "object":
            values = field.get("additionalProperties")
            return f"object of {_json_type(values)}" if isinstance(values, dict) else "object"
        case None:
            return "any"
        case str() as kind:
            return kind
        case kinds:
            return " or ".join(kinds)


def exit_codes() -> str:
    """Return the table of exit codes."""
    from unspool.cli.main import EXIT_CODES

    rows = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows])
