"""`unspool config`: a person's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from unspool.cli import output
from unspool.display import table
from unspool.errors import NothingFound, Usage
from unspool.paths import data_folder
from unspool.store import preferences

_ANY_PRICE = f"{preferences.PRICES}MODEL"
_COLUMNS = [
    table.Column("setting"),
    table.Column("value", least=20),
    table.Column("default"),
    table.Column("meaning", least=30, expendable=True),
]


# An offset such as `-05:00` is a value here, no option.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--unset", metavar="KEY", help="Take a setting out: its default holds again.")
@output.json_option
def config(key: str | None, value: str | None, unset: str | None, as_json: bool) -> None:
    """Show the settings, or change one.

    Without KEY all of them are listed; with it, its value is printed; with VALUE, it is set. Keys: archive (on, off),
    timezone (a zone), background (on, off), indexing (on, off), prices.MODEL (JSON). They are kept in settings.json in
    $UNSPOOL_HOME.
    """
    folder = data_folder(os.environ)
    if unset is not None and key is not None:
        raise Usage("`--unset` takes one key and nothing else", hint="`unspool config --unset KEY`")
    if unset is not None:
        preferences.change(folder, unset, None)
    elif key is None:
        _list(folder, as_json)
    elif value is None:
        _show(folder, key, as_json)
    else:
        preferences.change(folder, key, value)


def _list(folder: Path, as_json: bool) -> None:
    unknown = preferences.read(folder).unknown
    rows, path = _rows(preferences.load(folder)), folder / preferences.NAME
    if as_json:
        output.write_json({"file": str(path), "settings": rows, "unknown": list(unknown)})
        return
    if not any(row["key"].startswith(preferences.PRICES) for row in rows):
        rows.append({"key": _ANY_PRICE, "value": None, "default": None, "meaning": preferences.MEANINGS[_ANY_PRICE]})
    cells = [[row["key"], _text(row["value"]), _text(row["default"]), row["meaning"]] for row in rows]
    table.write(_COLUMNS, cells, output.width())
    output.line(f"in {path}" if path.exists() else f"nothing is set; {path} will hold what is")
    if unknown:
        output.line(f"not known to this version, and kept: {', '.join(unknown)}")


def _show(folder: Path, key: str, as_json: bool) -> None:
    preferences.check(key)
    preferences.read(folder)
    row = next((row for row in _rows(preferences.load(folder)) if row["key"] == key), None)
    if row is None:
        raise NothingFound(f"not set: `{key}`", hint="the built-in table has the price, if the model is in it")
    if as_json:
        output.write_json(row)
    else:
        output.line(_text(row["value"]))


def _rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each setting with its value, and each price that is set."""
    defaults, rows = preferences.Settings()._asdict() | {"timezone": "local"}, []
    for key, meaning in preferences.MEANINGS.items():
        if not key.startswith(preferences.PRICES):
            value = values.get(key)
            default = defaults[key]
            rows.append(
                {"key": key, "value": default if value is None else value, "default": default, "meaning": meaning}
            )
            continue
        for model, price in values.get("prices", {}).items():
            rows.append({"key": preferences.PRICES + model, "value": price, "default": None, "meaning": meaning})
    return rows


def _text(value: object) -> str:
    """Return a value as it is written on the command line."""
    match value:
        case None:
            return ""
        case bool():
            return "on" if value else "off"
        case str():
            return value
        case _:
            import json

            return json.dumps(value)
