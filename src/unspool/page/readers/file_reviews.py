"""Reads the changes of files in a session and makes a review of each: for the page, its patch and the exported file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from unspool.page.analysis import FileReview, review_file
from unspool.page.readers.file_changes import ChangedFile, read_changes, read_first_versions
from unspool.page.view import PageView

MAX_CHARACTERS: Final = 24_000_000
"""Of contents that are read at once; files after that are left to the next call."""


def read_reviews(
    view: PageView, files: Sequence[ChangedFile], context: int, turns: range | None = None
) -> list[FileReview]:
    """Return the reviews of files, as many as may be read at once; with `turns` only what these changed."""
    reviews: list[FileReview] = []
    read = 0
    for file in files:
        changes = [change for change in read_changes(view, file) if turns is None or change.turn in turns]
        if not changes:
            if turns is None:
                notes = ("nothing is recorded of it",)
                reviews.append(FileReview(path=file.path, changes=(), is_net=False, notes=notes))
            continue
        review = review_file(file.path, changes, context=context)
        if review.before is None and not review.is_net and turns is None:
            base = read_first_versions(view, [file.path]).get(file.path)
            review = review_file(file.path, changes, base, context) if base is not None else review
        reviews.append(review)
        read += sum(len(text or "") for change in changes for text in (change.before, change.after))
        if read > MAX_CHARACTERS:
            break
    return reviews
