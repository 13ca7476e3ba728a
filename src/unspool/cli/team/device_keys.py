"""The actions of `unspool collect` on the keys of this machine: to enrol with a token, and to rotate the key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.cli import output
from unspool.collect import (
    Enrolment,
    collector_lock,
    enrol_with_token,
    known_targets,
    open_object_store,
    open_state,
    parse_enrolment_options,
    read_enrolment,
    remove_enrolment,
    replace_enrolment,
    rotate_device_key,
)
from unspool.collect.trust import EnrolmentToken, add_trusted_keys, parse_token, publish_key, token_signer
from unspool.errors import NotFound, Refused, UsageError
from unspool.extras import require_extras
from unspool.files import read_private

_VARIABLE = "UNSPOOL_TOKEN"


def find_token(path: Path | None, environment: Mapping[str, str]) -> EnrolmentToken | None:
    """Return the token in a file or in the environment; None if there is none."""
    if path is None:
        text = environment.get(_VARIABLE, "")
        return parse_token(text) if text else None
    data = read_private(path, 64 * 1024, "a token")
    return parse_token(data.decode("utf-8", "replace"))


def enrol_device_with_token(folder: Path, token: EnrolmentToken, to: str | None, rest: dict[str, Any]) -> Enrolment:
    """Enrol this machine with a token: make its key, and hand the public key over."""
    require_extras("team")
    url, signer = _require_destination(to), token_signer(token)
    with collector_lock(folder):
        try:
            before = read_enrolment(folder)
        except NotFound:
            before = None
        request = parse_enrolment_options(os.environ)._replace(org=rest["org"], user=rest["user"])
        first = 1 if before is None else _next_segment(folder, before)
        enrolment = enrol_with_token(folder, token, request, os.environ, first)
        try:
            publish_key(open_object_store(url, os.environ), enrolment.org, enrolment.device, enrolment.device_keys[-1])
        except Refused:
            # The token was used by another machine: this one has not become that device.
            if before is None:
                remove_enrolment(folder)
            elif not before.device_keys:
                replace_enrolment(folder, before, [])
            raise
        # Who may let devices in may also say what they must not send.
        add_trusted_keys(folder, enrolment.org, (signer,))
    return enrolment


def rotate_key(folder: Path, to: str | None, *, as_json: bool) -> None:
    """Make a new key for this device, and hand over its public key, signed with the old one."""
    require_extras("team")
    url = _require_destination(to)
    with collector_lock(folder):
        enrolment = read_enrolment(folder)
        store = open_object_store(url, os.environ)
        for key in enrolment.device_keys[-1:]:
            # If an earlier rotation was killed before its key was handed over.
            publish_key(store, enrolment.org, enrolment.device, key)
        enrolment = rotate_device_key(folder, enrolment, _next_segment(folder, enrolment))
        key = enrolment.device_keys[-1]
        publish_key(store, enrolment.org, enrolment.device, key)
    data = {"org": enrolment.org, "device": enrolment.device, "epoch": key.epoch, "from_segment": key.from_segment}
    line = f"key {key.epoch} signs from segment {key.from_segment:,} on"
    output.print_result("collect-rotate-key", data, line, as_json=as_json)


def _next_segment(folder: Path, enrolment: Enrolment) -> int:
    """Return the number of the next segment that can be signed with a new key."""
    number = 1
    for url, org, device in known_targets(folder):
        if (org, device) != (enrolment.org, enrolment.device):
            continue
        with open_state(folder, url, org, device) as state:
            if not enrolment.device_keys and state.streams_with_old_segments():
                hint = "send them first: `unspool collect --to URL`"
                raise Refused("segments of an earlier version wait, which cannot be signed", hint=hint)
            # One that is being sent may be in the store already, as it is.
            number = max(number, state.chain_end().sequence + (2 if state.packed() else 1))
    return number


def _require_destination(to: str | None) -> str:
    if to is None:
        raise UsageError("missing destination", hint="add `--to URL`: the public key is handed over there")
    return to.rstrip("/")
