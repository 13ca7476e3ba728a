"""Enrolment: made once, kept to oneself."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.collect.enrolment import NAME, EnrolmentRequest, enrol_device, parse_enrolment_options, read_enrolment
from unspool.errors import NotFound, Refused, Unreadable, UsageError


def test_a_machine_is_enrolled_on_first_use_and_stays_so(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    with pytest.raises(NotFound):
        read_enrolment(folder)
    made = enrol_device(folder, EnrolmentRequest(org="acme"), {"USER": "me"})
    assert (made.org, made.user, len(made.device), len(made.secret)) == ("acme", "me", 16, 32)
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600
    assert enrol_device(folder, EnrolmentRequest(), {}) == made
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_it_may_not_become_another(tmp_path: Path) -> None:
    enrol_device(tmp_path, EnrolmentRequest(org="acme"), {})
    with pytest.raises(Refused, match="enrolled with org `acme`, not `other`"):
        enrol_device(tmp_path, EnrolmentRequest(org="other"), {})


def test_the_environment_may_say_it_all(tmp_path: Path) -> None:
    said = {"UNSPOOL_ORG": "o", "UNSPOOL_USER": "u", "UNSPOOL_DEVICE": "d", "UNSPOOL_KEY": "ab" * 32}
    made = enrol_device(tmp_path, parse_enrolment_options(said), said)
    assert made.keyed(b"x") == enrol_device(tmp_path / "b", parse_enrolment_options(said), said).keyed(b"x")
    assert (made.org, made.user, made.device) == ("o", "u", "d")


@pytest.mark.parametrize(
    "enrolment_request",
    [
        EnrolmentRequest(org="a/b"),
        EnrolmentRequest(device="../x"),
        EnrolmentRequest(key="abc"),
        EnrolmentRequest(key="zz" * 32),
        EnrolmentRequest(org="."),
    ],
)
def test_names_that_cannot_be_part_of_an_objects_name_are_refused(
    tmp_path: Path, enrolment_request: EnrolmentRequest
) -> None:
    with pytest.raises(UsageError):
        enrol_device(tmp_path, enrolment_request, {})
    assert not (tmp_path / NAME).exists()


def test_a_file_that_others_may_read_or_that_is_damaged_is_refused(tmp_path: Path) -> None:
    enrol_device(tmp_path, EnrolmentRequest(), {})
    (tmp_path / NAME).chmod(0o644)
    with pytest.raises(Refused, match="other users can read"):
        read_enrolment(tmp_path)
    (tmp_path / NAME).chmod(0o600)
    for words in ("", "{}", '{"org":"a","user":"b","device":"c","key_id":"d","key":"zz"}'):
        (tmp_path / NAME).write_text(words)
        with pytest.raises(Unreadable, match="invalid enrolment"):
            read_enrolment(tmp_path)
