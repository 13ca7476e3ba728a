"""`unspool config`: shows and changes the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from unspool.cli import options, output
from unspool.display import TextColumn
from unspool.errors import NothingFound, UsageError
from unspool.paths import data_folder
from unspool.store import preferences

_ANY_PRICE = f"{preferences.PRICE_PREFIX}MODEL"
_COLUMNS = [
    TextColumn("setting"),
    TextColumn("value", least=20),
    TextColumn("default"),
    TextColumn("meaning", least=30, expendable=True),
]


# An offset such as `-05:00` is a value here, no option.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--unset", metavar="KEY", help="Remove a setting and use its default")
@options.json_option
@output.paged
def config(key: str | None, value: str | None, unset: str | None, as_json: bool) -> None:
    """Show or change settings.

    Without KEY, list all settings. With KEY, print its value. With KEY and VALUE, set it. Keys: archive (on, off),
    timezone (a zone), background (on, off), indexing (on, off), statusline.template (a template),
    limits.five_hour_cost (dollars), limits.five_hour_tokens (tokens), prices.MODEL (JSON). The file is settings.json
    in $UNSPOOL_HOME.
    """
    folder = data_folder(os.environ)
    if unset is not None and key is not None:
        raise UsageError("--unset takes one key and no value", hint="use `unspool config --unset KEY`")
    if unset is not None:
        preferences.change_preference(folder, unset, None)
    elif key is None:
        _print_all(folder, as_json)
    elif value is None:
        _print_one(folder, key, as_json)
    else:
        preferences.change_preference(folder, key, value)


def _print_all(folder: Path, as_json: bool) -> None:
    unknown = preferences.read_preferences(folder).unknown
    rows, path = _rows(preferences.load_file(folder)), folder / preferences.FILE_NAME
    if as_json:
        names = {"path": str(path), "file": str(path)}
        output.write_document("config", {**names, "items": rows, "settings": rows, "unknown": list(unknown)}, [])
        return
    if not any(row["key"].startswith(preferences.PRICE_PREFIX) for row in rows):
        rows.append({"key": _ANY_PRICE, "value": None, "default": None, "meaning": preferences.MEANINGS[_ANY_PRICE]})
    cells = [[row["key"], _format_value(row["value"]), _format_value(row["default"]), row["meaning"]] for row in rows]
    output.print_table(_COLUMNS, cells)
    output.print_line(f"in {path}" if path.exists() else f"no settings changed; {path} does not exist yet")
    if unknown:
        output.print_line(f"unknown to this version, kept: {', '.join(unknown)}")


def _print_one(folder: Path, key: str, as_json: bool) -> None:
    preferences.check_key(key)
    preferences.read_preferences(folder)  # validates the whole file: a damaged one is an error, also for a sound key
    row = next((row for row in _rows(preferences.load_file(folder)) if row["key"] == key), None)
    if row is None:
        raise NothingFound(
            f"`{key}` is not set", hint="list settings with `unspool config`; built-in prices are in effect"
        )
    output.print_result("config-key", row, _format_value(row["value"]), as_json=as_json)


def _rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each setting, and one for each price that is set."""
    defaults, rows = preferences.Preferences()._asdict() | {"timezone": "local"} | _NESTED_DEFAULTS, []
    for key, meaning in preferences.MEANINGS.items():
        if not key.startswith(preferences.PRICE_PREFIX):
            known = preferences.read_value(values, key)
            value = defaults[key] if known is None else known
            rows.append({"key": key, "value": value, "default": defaults[key], "meaning": meaning})
            continue
        for model, price in values.get("prices", {}).items():
            rows.append({"key": preferences.PRICE_PREFIX + model, "value": price, "default": None, "meaning": meaning})
    return rows


_NESTED_DEFAULTS = {"statusline.template": None, "limits.five_hour_cost": None, "limits.five_hour_tokens": None}


def _format_value(value: object) -> str:
    """Return a value as `unspool config KEY VALUE` takes it."""
    match value:
        case None:
            return ""
        case bool():
            return "on" if value else "off"
        case str():
            return value
        case _:
            import json  # start-up: only prices need it

            return json.dumps(value)
