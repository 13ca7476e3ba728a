"""The alert rules in docs/alerts.yaml: Prometheus can read them, and unspool prints every metric that they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.cli.conftest import Run
from tests.faults.world import World

RULES = Path(__file__).parents[3] / "docs" / "alerts.yaml"
DURATION = re.compile(r"[0-9]+[smhdw]")
TOKEN = re.compile(r"\s*(?:(?P<name>[a-z_][a-z0-9_]*)|(?P<number>[0-9.]+(?:e[0-9]+)?)|(?P<mark>[()+*/-]|[<>=!]=|[<>]))")
FUNCTIONS = {"time", "sum", "max", "absent"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert all(set(group) == {"name", "rules"} for group in groups)
    return [rule for group in groups for rule in group["rules"]]


def tokens(expression: str) -> list[tuple[str, str]]:
    """Split an expression into its tokens; fail at what is none."""
    found, at = list[tuple[str, str]](), 0
    while at < len(expression):
        match = TOKEN.match(expression, at)
        assert match is not None, expression[at:]
        assert match.lastgroup is not None
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


def is_expression(found: list[tuple[str, str]]) -> bool:
    """Tell whether tokens are operands with an operator between each two, calls and brackets among them."""
    depth, needs_operand = 0, True
    for at, (kind, text) in enumerate(found):
        after = found[at + 1][1] if at + 1 < len(found) else ""
        if text == "(":
            depth, needs_operand = depth + 1, found[at + 1][1] != ")"
        elif text == ")":
            depth -= 1
            if depth < 0 or needs_operand:
                return False
        elif kind == "mark" or text in {"and", "or", "unless"}:
            if needs_operand:
                return False
            needs_operand = True
        elif not needs_operand:
            return False
        elif kind == "name" and text in FUNCTIONS:
            if after != "(":
                return False
        else:
            needs_operand = False
    return depth == 0 and not needs_operand


@pytest.mark.parametrize("text", ["sum(a", "a > > b", "a b", "time > 3", "a >", ") a ("])
def test_what_is_no_expression_is_refused(text: str) -> None:
    assert not is_expression(tokens(text))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_has_the_fields_that_prometheus_reads(rule: dict[str, Any]) -> None:
    assert {"alert", "expr", "labels", "annotations"} <= set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", rule["alert"])
    assert "for" not in rule or DURATION.fullmatch(rule["for"])
    assert is_expression(tokens(rule["expr"]))
    assert rule["labels"]["severity"] in {"info", "warning"}
    for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
        assert label in {"user", "device", "to"}


def test_names_of_alerts_are_unique() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)


def test_every_metric_of_a_rule_is_printed(run: Run, tmp_path: Path) -> None:
    world, url, lake = World(tmp_path / "config"), (tmp_path / "segments").as_uri(), tmp_path / "lake"
    world.append(world.create(), 4)
    assert run("collect", "--to", url, "--config-dir", world.root, "--org", "acme", "--user", "ada").code == 0
    assert run("lake", "init", lake).code == 0
    printed = run("collect", "--status", "--prometheus").out
    status = run("lake", "status", "--lake", lake, "--from", url, "--prometheus")
    assert status.code == 0, status.err
    printed += status.out
    values = set(re.findall(r"^(unspool_\w+)[ {]", printed, re.MULTILINE))
    named = {text for rule in rules() for kind, text in tokens(rule["expr"]) if text.startswith("unspool_")}
    assert named
    assert named <= values


def test_the_page_about_teams_names_the_rules() -> None:
    assert "(alerts.yaml)" in (RULES.parent / "team.md").read_text()
