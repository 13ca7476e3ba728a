"""Print figures about the source tree: `python -m tests.figures [SOURCE]`.

Sizes of modules and folders, repeated class names, comments, imports that go past a package's door, and how many
modules a command loads on a session of five lines. `test_house.py` holds the limits; this prints what they look like.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "unspool"
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|pyright|ruff:|fmt:|mypy:)")
COMMANDS = {
    "usage": ["usage"],
    "search": ["search", "tide"],
    "sql": ["sql", "SELECT count(*) FROM sessions"],
    "edit trim": ["edit", "trim", "{session}", "--tools", "Bash"],
    "chat -p": ["chat", "-p", "Hello", "--model", "script:{script}"],
}


class Module:
    """One Python file of the package, parsed."""

    def __init__(self, path: Path, source: Path) -> None:
        self.path = path
        self.text = path.read_text("utf-8")
        self.tree = ast.parse(self.text)
        parts = path.relative_to(source.parent).with_suffix("").parts
        self.is_door = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_door else parts)
        self.package = self.name if self.is_door else self.name.rpartition(".")[0]

    @property
    def classes(self) -> list[str]:
        """The names of the public classes at the top level."""
        nodes = (node for node in self.tree.body if isinstance(node, ast.ClassDef))
        return [node.name for node in nodes if not node.name.startswith("_")]

    @property
    def offers(self) -> list[str]:
        """The names in `__all__`."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
                return [str(name) for name in ast.literal_eval(node.value)]
        return []

    def imports(self) -> Iterator[tuple[str, str]]:
        """Yield the module and the name of each import from the package, at any level."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "unspool":
                for alias in node.names:
                    yield node.module, alias.name


@cache  # several tests ask, and parsing all of it takes seconds
def modules(source: Path = SOURCE) -> dict[str, Module]:
    """Return every module below a source folder, by dotted name."""
    found = (Module(path, source) for path in sorted(source.rglob("*.py")))
    return {module.name: module for module in found}


def count_comments(text: str) -> int:
    """Return the number of comments, without directives for tools."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string) for token in tokens)


def code_lines(module: Module) -> int:
    """Return the number of lines that are neither blank, comment nor docstring."""
    lines: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(module.tree):
        # A bare string is a docstring, also behind a field.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def repeated_classes(found: dict[str, Module], *, more_than: int) -> dict[str, list[str]]:
    """Return the public class names that are defined in more than so many modules, with those modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in found.values():
        for name in module.classes:
            places[name].append(module.name)
    return {name: where for name, where in places.items() if len(where) > more_than}


def bypasses(found: dict[str, Module]) -> list[str]:
    """Return the imports that take a name of another package from elsewhere than a door that offers it."""
    past = []
    for module in found.values():
        if module.is_door:
            continue
        for target, name in module.imports():
            other = ".".join(target.split(".")[:2])
            if other == ".".join(module.name.split(".")[:2]) or not found.get(other, module).is_door:
                continue  # its own package, or a module like `errors` that has no door
            if not found[target].is_door or (name not in found[target].offers and target != "unspool"):
                past.append(f"{module.name} imports {name} from {target}")
    return past


def importers_of(found: dict[str, Module]) -> dict[str, set[str]]:
    """Return the modules that import each module. A name that a door offers is imported from where it is defined."""
    doors = {name: {at[1]: at[0] for at in module.imports()} for name, module in found.items() if module.is_door}

    def resolve(target: str, name: str) -> str:
        if f"{target}.{name}" in found:
            return f"{target}.{name}"
        return resolve(doors[target][name], name) if name in doors.get(target, {}) else target

    importers: dict[str, set[str]] = {name: set() for name, module in found.items() if not module.is_door}
    for module in found.values():
        for real in {resolve(*imported) for imported in module.imports()} - {module.name}:
            if real in importers and not module.is_door:
                importers[real].add(module.name)
    return importers


def one_importer(found: dict[str, Module]) -> list[str]:
    """Return the modules that exactly one other module imports."""
    return sorted(name for name, users in importers_of(found).items() if len(users) == 1)


def modules_run(words: list[str], source: Path = SOURCE) -> int:
    """Return how many modules of the package a command loads, on a session of five lines in an empty home."""
    program = (
        "import atexit, os, sys; sys.path.insert(0, {path!r}); sys.argv = ['unspool', *{words!r}]\n"
        "def report():\n"
        "    names = [n for n, m in sys.modules.items() if n.partition('.')[0] == 'unspool'"
        " and not (getattr(m, '__file__', '') or '').endswith('__init__.py')]\n"
        "    open({out!r}, 'w').write(str(len(names)))\n"
        "atexit.register(report)\n"
        "from unspool.__main__ import main\n"
        "main()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        session, script, out = (
            home / "config/projects/-work/5e551075-0000-4000-8000-000000000000.jsonl",
            home / "s",
            home / "n",
        )
        session.parent.mkdir(parents=True)
        (home / "work").mkdir()
        session.write_text(FIVE_LINES)
        script.write_text('["Hello."]')
        filled = [word.format(session=session.stem, script=script) for word in words]
        code = program.format(path=str(source.parent), words=filled, out=str(out))
        environment = {
            "HOME": folder,
            "PATH": "/usr/bin:/bin",
            "CLAUDE_CONFIG_DIR": str(home / "config"),
            "LC_ALL": "C.UTF-8",
        }
        run = subprocess.run(
            [sys.executable, "-c", code],
            cwd=home / "work",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if not out.exists():
            raise SystemExit(f"`unspool {' '.join(words)}` told nothing:\n{run.stderr}")
        if run.returncode:
            raise SystemExit(f"`unspool {' '.join(words)}` ended with {run.returncode}:\n{run.stderr}")
        return int(out.read_text())


SESSION = "5e551075-0000-4000-8000-000000000000"
FIVE_LINES = "\n".join(
    [
        '{"type":"user","uuid":"a1","parentUuid":null,"sessionId":"5e551075-0000-4000-8000-000000000000",'
        '"timestamp":"2026-01-01T10:00:00.000Z","cwd":"/work","version":"2.1.29",'
        '"message":{"role":"user","content":"When is high tide?"}}',
        '{"type":"assistant","uuid":"a2","parentUuid":"a1","sessionId":"5e551075-0000-4000-8000-000000000000",'
        '"timestamp":"2026-01-01T10:00:01.000Z","cwd":"/work","version":"2.1.29","requestId":"req_1",'
        '"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-5","stop_reason":"tool_use",'
        '"content":[{"type":"thinking","thinking":"I look it up.","signature":"c2ln"}],'
        '"usage":{"input_tokens":10,"output_tokens":20}}}',
        '{"type":"assistant","uuid":"a3","parentUuid":"a2","sessionId":"5e551075-0000-4000-8000-000000000000",'
        '"timestamp":"2026-01-01T10:00:02.000Z","cwd":"/work","version":"2.1.29","requestId":"req_1",'
        '"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-5","stop_reason":"tool_use",'
        '"content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"tide"}}],'
        '"usage":{"input_tokens":10,"output_tokens":20}}}',
        '{"type":"user","uuid":"a4","parentUuid":"a3","sessionId":"5e551075-0000-4000-8000-000000000000",'
        '"timestamp":"2026-01-01T10:00:03.000Z","cwd":"/work","version":"2.1.29",'
        '"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"11:40"}]}}',
        '{"type":"assistant","uuid":"a5","parentUuid":"a4","sessionId":"5e551075-0000-4000-8000-000000000000",'
        '"timestamp":"2026-01-01T10:00:04.000Z","cwd":"/work","version":"2.1.29","requestId":"req_2",'
        '"message":{"id":"msg_2","type":"message","role":"assistant","model":"claude-opus-4-5","stop_reason":"end_turn",'
        '"content":[{"type":"text","text":"High tide is at 11:40."}],"usage":{"input_tokens":30,"output_tokens":9}}}',
        "",
    ]
)


def main(source: Path = SOURCE) -> None:
    """Print the figures."""
    found = modules(source)
    sizes = [len(module.text.splitlines()) for module in found.values() if not module.is_door]
    folders = Counter(module.package for module in found.values() if not module.is_door)
    code = sum(code_lines(module) for module in found.values())
    demo = sum(code_lines(module) for module in found.values() if "demo" in module.name.split("."))
    comments = sum(count_comments(module.text) for module in found.values())
    print(f"modules                              {len(sizes)}")
    print(f"lines of a module, median            {statistics.median(sizes):.0f}")
    print(f"lines of a module, largest           {max(sizes)}")
    print(f"folders with more than 16 modules    {sum(count > 16 for count in folders.values())}")
    print(f"public class names in two modules    {len(repeated_classes(found, more_than=1))}")
    print(f"public class names in more than two  {len(repeated_classes(found, more_than=2))}")
    print(f"modules with one importer            {len(one_importer(found))}")
    print(f"code lines                           {code} ({demo} of the demo generator)")
    print(f"comments per 100 code lines          {100 * comments / code:.2f}")
    print(f"imports that bypass a door           {len(bypasses(found))}")
    for name, words in COMMANDS.items():
        print(f"modules run by {name:<22}{modules_run(words, source)}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
