"""Collects what unspool says to people: help, errors, hints, notices, headings, page labels and documents.

Everything is read from the files themselves, so that the texts of any checkout can be collected, old ones too.
"""

import ast
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

ERRORS = frozenset({
    "UnspoolError", "NothingFound", "UsageError", "NotFound", "Unreadable", "Unwritable", "Refused", "ApiFailed",
    "ObjectStoreFailed",
})  # fmt: skip
QUOTED = (
    "demo", "testing", "api/rules", "api/scripted", "client/prompt", "client/tools", "client/compaction",
    "client/loop", "client/session/registration.py", "client/session/wordings.py", "edit/model_summary.py",
    "edit/verify/versions.py", "graph/context", "graph/prompts.py", "format", "permissions", "redact/rules.py",
    "redact/values.py",
)  # fmt: skip
"""Where texts are data: made-up sessions, the wording of the API and of Claude Code, and texts for a model."""
SHOWN = {"help", "epilog", "hint", "reason", "label", "title", "message", "prompt", "note"}
"""Keyword arguments whose value is shown to a person."""
_CODE = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|BEGIN|FROM|WHERE)\b|[{}\\]|--x|::|\)\?|=\"|;\s*$")
ATTRIBUTES = {"title", "placeholder", "aria-label", "alt", "data-label", "data-title", "label"}


class Text(NamedTuple):
    """A text that a person reads, and where it is written."""

    kind: str
    """`help`, `error`, `hint`, `label` or `document`."""
    place: str
    line: int
    text: str

    @property
    def area(self) -> str:
        """The package, or the page."""
        parts = self.place.split("/")
        return parts[2] if self.place.startswith("src/unspool/") and len(parts) > 3 else parts[-1]


def source_texts(root: Path) -> Iterator[Text]:
    """Yield the texts in the Python modules of a checkout."""
    package = root / "src" / "unspool"
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        is_quoted = any(name == quoted or name.startswith(f"{quoted}/") for quoted in QUOTED)
        yield from _module_texts(path, path.relative_to(root).as_posix(), everything=not is_quoted)


def page_texts(root: Path) -> Iterator[Text]:
    """Yield the labels in templates and scripts of the web page."""
    package = root / "src" / "unspool"
    for path in sorted([*package.rglob("*.html"), *package.rglob("*.js")]):
        place = path.relative_to(root).as_posix()
        if path.suffix == ".html":
            reader = _TemplateReader()
            reader.feed(_blank_template_code(path.read_text()))
            yield from (Text("label", place, line, text) for line, text in reader.texts)
        else:
            yield from _script_texts(path, place)


def document_texts(root: Path) -> Iterator[Text]:
    """Yield the sentences of README, changelog and the pages in `docs`, one text for each paragraph or table cell."""
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        place = path.relative_to(root).as_posix()
        yield from (Text("document", place, line, text) for line, text in _paragraphs(path.read_text()))


def _module_texts(path: Path, place: str, *, everything: bool) -> Iterator[Text]:
    tree = ast.parse(path.read_text())
    skipped = _docstrings(tree)
    kinds: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            kinds.update(_shown_arguments(node))
        elif isinstance(node, ast.FunctionDef) and _is_command(node) and (help_text := ast.get_docstring(node)):
            yield from (Text("help", place, node.lineno, part) for part in help_text.split("\n\n"))
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = _literal(node)
        if text is None or node in skipped or node in parts:
            continue
        kind = kinds.get(node)
        if kind or (everything and _is_sentence(text)):
            yield Text(kind or "label", place, getattr(node, "lineno", 0), text)


def _shown_arguments(call: ast.Call) -> Iterator[tuple[ast.AST, str]]:
    """Yield the arguments of a call that are shown to a person, each with its kind."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ERRORS and call.args:
        yield from ((node, "error") for node in ast.walk(call.args[0]) if _literal(node))
    for keyword in call.keywords:
        if keyword.arg in SHOWN:
            kind = {"help": "help", "epilog": "help", "hint": "hint"}.get(keyword.arg, "label")
            yield from ((node, kind) for node in ast.walk(keyword.value) if _literal(node))


def _is_command(function: ast.FunctionDef) -> bool:
    """Return whether a function is a command of click, whose docstring is its help."""
    decorators = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    return any(isinstance(one, ast.Attribute) and one.attr in {"command", "group"} for one in decorators)


def _literal(node: ast.AST) -> str | None:
    """Return the text of a literal, with `X` for each value in an f-string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) or "X" for part in node.values)
    return None


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    """Return the texts that stand as a statement: docstrings of modules, functions, classes and attributes."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _is_sentence(text: str) -> bool:
    """Return whether a literal looks like words for people, not like SQL, CSS, a pattern or a path."""
    if _CODE.search(text):
        return False
    words = re.findall(r"(?<![\w.-])[A-Za-z][a-z']+(?![\w-])", text)
    return len(words) >= 3 and len(words) * 5 >= len(text) / 4


class _TemplateReader(HTMLParser):
    """Takes the text nodes and the shown attributes of a template."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[int, str]] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"script", "style", "code", "pre"}
        for name, value in attrs:
            if name in ATTRIBUTES and value:
                self._add(value)

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style", "code", "pre"}

    def handle_data(self, data: str) -> None:
        if self._hidden <= 0:
            self._add(data)

    def _add(self, text: str) -> None:
        if re.search(r"[A-Za-z]{2}", text):
            self.texts.append((self.getpos()[0], " ".join(text.split())))


def _blank_template_code(text: str) -> str:
    """Return a template with its expressions as `X` and without its statements and comments."""
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL)
    return re.sub(r"\{\{.*?\}\}", "X", text, flags=re.DOTALL)


def _script_texts(path: Path, place: str) -> Iterator[Text]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = re.sub(r"^\s*(//|\*|/\*).*|\s//\s.*", "", line)
        for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`', code):
            text = re.sub(r"\$\{[^}]*\}", "X", quoted[0] or quoted[1])
            if _is_sentence(text):
                yield Text("label", place, number, text)


def _paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, list items, headings and table cells of a page, without code."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", lambda code: "\n" * code[0].count("\n"), markdown, flags=re.DOTALL | re.M)
    start, lines = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        line = line.strip()
        begins = re.match(r"([-*+]|\d+\.)\s|#|\||>", line)
        if (not line or begins) and lines:
            yield start, " ".join(lines)
            lines = []
        if line.startswith("|"):
            yield from ((number, cell.strip()) for cell in line.strip("|").split("|") if re.search("[a-z]", cell))
        elif line:
            start = start if lines else number
            lines.append(re.sub(r"^(([-*+]|\d+\.)\s+|#+\s*|>\s*)", "", line))


if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    for one in [*source_texts(checkout), *page_texts(checkout)]:
        print(one.kind, f"{one.place}:{one.line}", one.text.replace("\n", "⏎"), sep="\t")
