"""Status of files: numbers that the store can hold, whatever the file system has."""

from __future__ import annotations

import os

import pytest

from unspool.files import file_identity, modified_time

LARGEST = 2**63 - 1


def status(inode: int, modified: int) -> os.stat_result:
    """Return the status of a file with an inode and a time."""
    return os.stat_result((0o100600, inode, 1, 1, 0, 0, 5, 0, 0, 0, 0.0, 0.0, 0.0, 0, modified, 0))


@pytest.mark.parametrize(("inode", "found"), [(7, 7), (LARGEST, LARGEST), (2**63, -(2**63)), (2**64 - 1, -1)])
def test_inodes_of_64_bits_become_signed_and_stay_different(inode: int, found: int) -> None:
    assert file_identity(status(inode, 0)) == (1, found)


@pytest.mark.parametrize(("modified", "found"), [(5, 5), (-5, -5), (10**19, LARGEST), (-(10**19), -LARGEST)])
def test_times_that_64_bits_cannot_tell_are_the_nearest_one(modified: int, found: int) -> None:
    assert modified_time(status(7, modified)) == found
