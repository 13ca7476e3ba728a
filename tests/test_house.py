"""The house rules that a machine can check at little cost."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import unspool
from tests import figures

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "unspool"
MODULES = sorted(SOURCE.rglob("*.py"))
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))

CATCH_ALL = (SOURCE / "statusline" / "line.py", SOURCE / "client" / "tools" / "registry.py")
VAGUE = {"util", "helper", "common", "core", "misc"}
HEAVY = {"asyncio", "concurrent", "email", "http", "json", "multiprocessing", "sqlite3", "ssl", "urllib"}
HELP = "import runpy; sys.argv = ['unspool', '--help']; runpy.run_module('unspool', run_name='__main__')"


def test_there_are_modules_to_check() -> None:
    assert SOURCE / "__init__.py" in MODULES


def test_every_module_starts_with_a_docstring() -> None:
    assert [name(path) for path in MODULES if not ast.get_docstring(tree(path))] == []


def test_no_module_is_longer_than_800_lines() -> None:
    assert [name(path) for path in MODULES if len(path.read_text().splitlines()) > 800] == []


def test_no_folder_has_more_than_16_modules() -> None:
    folders = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert [name(folder) for folder, count in folders.items() if count > 16] == []


def test_more_than_five_arguments_are_passed_by_keyword() -> None:
    functions = [(path, node) for path in MODULES for node in functions_of(tree(path))]
    assert [f"{name(path)}:{node.lineno}" for path, node in functions if positional(node) > 5] == []


def test_no_public_class_name_is_defined_more_than_twice() -> None:
    assert figures.repeated_classes(figures.modules(), more_than=2) == {}


def test_two_in_a_hundred_lines_have_a_comment_that_says_why() -> None:
    modules = figures.modules().values()
    comments = sum(figures.count_comments(module.text) for module in modules)
    assert comments >= 0.02 * sum(map(figures.code_lines, modules))


def test_every_package_has_a_door_and_nobody_goes_past_it() -> None:
    modules = figures.modules()
    packages = {module.package for module in modules.values() if module.package.count(".") == 1}
    assert [package for package in sorted(packages) if "__all__" not in modules[package].text] == []
    assert figures.bypasses(modules) == []


def test_every_door_opens() -> None:
    for module in figures.modules().values():
        if module.is_door and module.name != "unspool":
            door = __import__(module.name, fromlist=module.offers)  # as `from … import` does: also modules
            assert [public for public in module.offers if getattr(door, public, None) is None] == []


def test_no_file_or_folder_has_a_vague_name() -> None:
    files = [path for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    assert [name(path) for path in files if words(name(path)) & VAGUE] == []


def test_only_the_status_line_and_the_tool_runner_catch_everything() -> None:
    caught = [f"{name(path)}:{line}" for path in MODULES for line in blind_excepts(tree(path))]
    assert [place for place in caught if not place.startswith(tuple(f"{name(path)}:" for path in CATCH_ALL))] == []


@pytest.mark.parametrize("code", ["import unspool", HELP], ids=["import", "--help"])
def test_starting_loads_no_heavy_library(code: str) -> None:
    loaded = {module.partition(".")[0] for module in imported(code) - imported("pass")}
    assert "unspool" in loaded
    assert loaded & HEAVY == set()
    assert loaded - sys.stdlib_module_names <= {"unspool", "click", "colorama"}


@pytest.mark.parametrize("command", ["ls", "usage", "stats", "doctor"])
def test_everyday_commands_load_neither_the_demo_nor_the_tools_for_tests(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True)
    (folder / f"{figures.SESSION}.jsonl").write_text(figures.FIVE_LINES)
    words = ["unspool", command, "--config-dir", str(tmp_path)]
    code = f"import os; os.environ['UNSPOOL_HOME'] = {str(tmp_path / 'own')!r}; sys.argv = {words!r}; "
    loaded = imported(code + "from unspool.cli.main import unspool; unspool.main(standalone_mode=False)")
    assert {module for module in loaded if module.startswith(("unspool.demo", "unspool.testing"))} == set()
    assert "unspool.cli.main" in loaded


# What each command loads now. A number only goes down: a new module is imported where it is used, or pays for itself.
MODULES_RUN = {"usage": 37, "search": 58, "sql": 69, "edit trim": 80, "chat -p": 146}


@pytest.mark.parametrize("command", MODULES_RUN)
def test_a_command_loads_few_modules(command: str) -> None:
    """Each costs about a third of a millisecond; what a short session does not need is imported where it is used."""
    assert figures.modules_run(figures.COMMANDS[command]) <= MODULES_RUN[command]


def test_every_public_name_can_be_imported() -> None:
    assert unspool.__all__
    assert [public for public in unspool.__all__ if getattr(unspool, public, None) is None] == []


def test_no_public_name_is_hidden_by_a_folder_of_that_name() -> None:
    folders = {path.stem for path in Path(unspool.__file__).parent.iterdir()}
    assert folders.isdisjoint(unspool.__all__)


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_is_pinned_with_a_hash(path: Path) -> None:
    pinned = re.compile(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}")
    assert pins(path)
    assert [pin for pin in pins(path) if not pinned.match(pin)] == []


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_a_requirement_file_names_no_address(path: Path) -> None:
    assert "://" not in path.read_text()


def test_every_requirement_file_has_the_pins_of_the_base() -> None:
    base = everywhere(ROOT / "requirements" / "base.txt")
    own = {"spark.txt", "clickhouse.txt", "docs.txt"}  # environments of their own
    assert [path.name for path in REQUIREMENTS if path.name not in own and not base <= everywhere(path)] == []


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def words(path: str) -> set[str]:
    return {word.removesuffix("s") for word in re.split(r"[/._-]", path.lower())}


def blind_excepts(module: ast.Module) -> Iterator[int]:
    """Yield the line of each `except` that would also catch a bug."""
    for node in ast.walk(module):
        match node:
            case ast.ExceptHandler(type=None):
                yield node.lineno
            case ast.ExceptHandler(type=ast.expr() as caught):
                names = {part.id for part in ast.walk(caught) if isinstance(part, ast.Name)}
                if names & {"Exception", "BaseException"}:
                    yield node.lineno


def functions_of(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions that are not commands: click passes those their options."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
            yield node


def positional(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many arguments a function takes by position, without `self`."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    return len(arguments) - (bool(arguments) and arguments[0].arg in {"self", "cls"})


def imported(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded when the code has run."""
    report = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    run = subprocess.run([sys.executable, "-c", report + code], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


def everywhere(path: Path) -> set[str]:
    """Return the pins of a file without the versions of Python they are for: another package may need one on more."""
    return {re.sub(r" ; .*?(?= +--hash)", "", pin) for pin in pins(path)}


def pins(path: Path) -> list[str]:
    """Return the requirements of a file, each with its hashes on one line."""
    text = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip()]
