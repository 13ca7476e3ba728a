"""What a release ships beside the package: the long description and the man page."""

from __future__ import annotations

import re
from pathlib import Path

import click

from scripts.man_page import PATH, escape, render
from scripts.release import README, long_description
from unspool.cli.main import unspool

LINK = re.compile(r"\[[^\]]*\]\((?!\w+:|#)")


def test_the_long_description_has_no_relative_link_and_no_picture() -> None:
    text = README.read_text("utf-8")
    assert LINK.search(text)
    described = long_description(text, "")
    assert LINK.search(described) is None
    assert "![" not in described
    assert "## Install" in described


def test_with_an_address_every_relative_link_leads_there() -> None:
    text = "![A page](docs/a.png) [guide](docs/guide.md#start) [top](#install) [site](https://example.org)"
    assert long_description(text, "https://example.org/x/") == (
        "![A page](https://example.org/x/docs/a.png) [guide](https://example.org/x/docs/guide.md#start) "
        "[top](#install) [site](https://example.org)"
    )


def test_the_man_page_has_every_command_and_is_up_to_date() -> None:
    text = render()
    assert PATH.read_text("utf-8") == text, "run `make fix`"
    context = click.Context(unspool, info_name="unspool")
    for name in unspool.list_commands(context):
        assert f'.SS "unspool {escape(name)} ' in text
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".PP", ".TP", ".B"}


def test_the_container_installs_what_the_checkout_has() -> None:
    root = Path(__file__).parents[1]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (root / "Containerfile").read_text(), re.MULTILINE)
    for name in " ".join(copied).split():
        assert (root / name).exists(), name
