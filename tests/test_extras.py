"""Which command installs an extra: it depends on how unspool was installed."""

import sys
import tomllib
from pathlib import Path

import pytest

from unspool.errors import MissingExtra
from unspool.extras import extra_of, install_command, install_hint, missing_extra, optional_libraries, require_extras

ROOT = Path(__file__).parent.parent


def test_every_library_that_a_module_imports_belongs_to_an_extra_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra_of(library) for library in optional_libraries()} == {*declared} - {"all"}
    assert extra_of("duckdb.typing") == "sql"
    assert extra_of("click") is None


def test_a_checkout_is_installed_again_with_the_extra() -> None:
    command = install_command(["web"])
    assert f"-e '{ROOT}[" in command
    assert "web" in command


@pytest.mark.parametrize(
    ("receipt", "start"),
    [("uv-receipt.toml", "uv tool install --force "), ("pipx_metadata.json", "pipx runpip unspool install ")],
)
def test_a_tool_is_installed_again_by_what_installed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receipt: str, start: str
) -> None:
    prefix = tmp_path / "unspool"
    prefix.mkdir()
    (prefix / receipt).touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    assert install_command(["web"]).startswith(start)


def test_an_environment_of_uvx_is_named_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/mI3k")
    assert install_hint(["web"]).startswith("run it with `uvx --from ")


def test_the_command_keeps_the_extras_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert "[web,chat,mcp,team,otlp,postgres]" in install_command(["team"])


def test_the_error_names_the_extras_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtra, match=r"^a lake needs the `team` extra, which is not installed$"):
        require_extras("web", "team", feature="a lake")
    assert missing_extra("sql", "team").message == "this needs the `sql` and `team` extras, which are not installed"
