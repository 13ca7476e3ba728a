"""Inputs and results of the tools that read, write, edit and search files."""

from typing import Any, Final, TypeAlias

from msgspec import field

from unspool.format.base import CamelShape, Shape

EDIT_TOOLS: Final = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
"""The tools that change files."""


class ReadInput(Shape, frozen=True):
    """Read a file, or pages of a PDF."""

    file_path: str = ""
    offset: int | float | None = None
    limit: int | float | None = None
    pages: str | None = None
    allow_large: bool | None = None


class NotebookReadInput(Shape, frozen=True):
    """Read a notebook (1.0.x); the tool Read does it since."""

    notebook_path: str = ""
    cell_id: str | None = None


class TextFile(CamelShape, frozen=True):
    """Lines of a text file."""

    file_path: str = ""
    content: str = ""
    num_lines: int | None = None
    start_line: int | None = None
    total_lines: int | None = None
    truncated_by_token_cap: bool | None = None


class ReadText(CamelShape, frozen=True, tag_field="type", tag="text"):
    """A text file was read."""

    file: TextFile = TextFile()
    artifact_read: dict[str, Any] | None = None


class Dimensions(CamelShape, frozen=True):
    """The size of an image in pixels, in the file and as it was sent."""

    original_width: int | float | None = None
    original_height: int | float | None = None
    display_width: int | float | None = None
    display_height: int | float | None = None


class ImageFile(CamelShape, frozen=True):
    """An image; its path is only in the input."""

    base64: str = ""
    type: str | None = None
    original_size: int | None = None
    dimensions: Dimensions | None = None


class ReadImage(CamelShape, frozen=True, tag_field="type", tag="image"):
    """An image was read."""

    file: ImageFile = ImageFile()


class PdfFile(CamelShape, frozen=True):
    """A PDF."""

    file_path: str = ""
    base64: str = ""
    original_size: int | None = None


class ReadPdf(CamelShape, frozen=True, tag_field="type", tag="pdf"):
    """All pages of a PDF were read."""

    file: PdfFile = PdfFile()


class PartsFile(CamelShape, frozen=True):
    """A PDF, page by page."""

    file_path: str = ""
    original_size: int | None = None
    count: int | None = None
    output_dir: str | None = None


class PdfPage(CamelShape, frozen=True):
    """A page of a PDF as an image."""

    base64: str = ""
    media_type: str | None = None
    error: str | None = None


class ReadParts(CamelShape, frozen=True, tag_field="type", tag="parts"):
    """Pages of a PDF were read as images."""

    file: PartsFile = PartsFile()
    first_page: int | None = None
    pages: tuple[PdfPage, ...] | None = None


class NotebookFile(CamelShape, frozen=True):
    """A notebook."""

    file_path: str = ""
    cells: tuple[Any, ...] = ()


class ReadNotebook(CamelShape, frozen=True, tag_field="type", tag="notebook"):
    """A notebook was read."""

    file: NotebookFile = NotebookFile()


class UnchangedFile(CamelShape, frozen=True):
    """A file that the model has already read in its current state."""

    file_path: str = ""


class ReadUnchanged(CamelShape, frozen=True, tag_field="type", tag="file_unchanged"):
    """A file was read again and had not changed, so nothing was sent."""

    file: UnchangedFile = UnchangedFile()
    source: str | None = None


class Hunk(CamelShape, frozen=True):
    """A hunk of a patch; each line begins with a space, `+`, `-` or `\\`."""

    old_start: int = 0
    old_lines: int = 0
    new_start: int = 0
    new_lines: int = 0
    lines: tuple[str, ...] = ()


class GitDiff(CamelShape, frozen=True):
    """A change as git shows it, in sessions that run in the cloud."""

    filename: str = ""
    status: str | None = None
    additions: int | None = None
    deletions: int | None = None
    changes: int | None = None
    patch: str | None = None
    repository: str | None = None


class WriteInput(Shape, frozen=True):
    """Write a whole file."""

    file_path: str = ""
    content: str = ""


class WriteResult(CamelShape, frozen=True):
    """A file was written."""

    type: str | None = None
    """`create` or `update`."""
    file_path: str = ""
    content: str = ""
    structured_patch: tuple[Hunk, ...] = ()
    """Empty for a new file."""
    original_file: str | None = None
    user_modified: bool | None = None
    git_diff: GitDiff | None = None
    memdir_stamped: bool | None = None
    staged: bool | None = None


class EditReplacement(Shape, frozen=True):
    """One of the changes of a MultiEdit."""

    old_string: str = ""
    new_string: str = ""
    replace_all: bool | None = None


class EditInput(EditReplacement, frozen=True):
    """Replace a string in a file."""

    file_path: str = ""


class EditResult(CamelShape, frozen=True):
    """A string in a file was replaced."""

    file_path: str = ""
    old_string: str = ""
    new_string: str = ""
    original_file: str | None = None
    structured_patch: tuple[Hunk, ...] = ()
    user_modified: bool | None = None
    """The user changed the edit before accepting it."""
    replace_all: bool | None = None
    git_diff: GitDiff | None = None
    memdir_stamped: bool | None = None
    staged: bool | None = None
    stale_recovered: bool | None = None


class MultiEditInput(Shape, frozen=True):
    """Replace several strings in a file (1.0.x)."""

    file_path: str = ""
    edits: tuple[EditReplacement, ...] = ()


class MultiEditResult(CamelShape, frozen=True):
    """Several strings in a file were replaced (1.0.x)."""

    file_path: str = ""
    edits: tuple[EditReplacement, ...] = ()
    original_file_contents: str | None = None
    structured_patch: tuple[Hunk, ...] = ()
    user_modified: bool | None = None


class NotebookEditInput(Shape, frozen=True):
    """Change a cell of a notebook: by number in 1.0.x, by id since."""

    notebook_path: str = ""
    new_source: str = ""
    cell_id: str | None = None
    cell_number: int | None = None
    cell_type: str | None = None
    edit_mode: str | None = None


class NotebookEditResult(Shape, frozen=True):
    """A cell of a notebook was changed."""

    new_source: str = ""
    old_source: str | None = None
    cell_id: str | None = None
    cell_number: int | None = None
    cell_type: str | None = None
    language: str | None = None
    edit_mode: str | None = None
    error: str | None = None
    notebook_path: str | None = None
    original_file: str | None = None
    updated_file: str | None = None


class GlobInput(Shape, frozen=True):
    """Find files by name."""

    pattern: str = ""
    path: str | None = None


class GlobResult(CamelShape, frozen=True):
    """Files were searched by name."""

    filenames: tuple[str, ...] = ()
    num_files: int = 0
    duration_ms: int | float | None = None
    truncated: bool | None = None
    total_matches: int | None = None
    count_is_complete: bool | None = None
    timed_out: bool | None = None


class GrepInput(Shape, frozen=True):
    """Find lines by pattern. The one-letter options have the long names that ripgrep gives them."""

    pattern: str = ""
    path: str | None = None
    glob: str | None = None
    include: str | None = None
    type: str | None = None
    output_mode: str | None = None
    line_number: bool | None = field(default=None, name="-n")
    ignore_case: bool | None = field(default=None, name="-i")
    only_matching: bool | None = field(default=None, name="-o")
    after_context: int | float | None = field(default=None, name="-A")
    before_context: int | float | None = field(default=None, name="-B")
    short_context: int | float | None = field(default=None, name="-C")
    context: int | float | None = None
    """The same as `-C` (from 2.1.29)."""
    multiline: bool | None = None
    head_limit: int | float | None = None
    offset: int | float | None = None


class GrepResult(CamelShape, frozen=True):
    """Files were searched."""

    mode: str | None = None
    """`content`, `files_with_matches` or `count`; 1.0.43 did not say."""
    filenames: tuple[str, ...] = ()
    num_files: int = 0
    content: str | None = None
    num_lines: int | None = None
    num_matches: int | None = None
    total_files: int | None = None
    total_lines: int | None = None
    applied_limit: int | None = None
    applied_offset: int | None = None
    timed_out: bool | None = None


class LSInput(Shape, frozen=True):
    """List a folder (1.0.x); the result is text."""

    path: str = ""
    ignore: tuple[str, ...] | None = None


class LSPInput(CamelShape, frozen=True):
    """Query a language server about a position in a file."""

    operation: str = ""
    file_path: str = ""
    line: int | None = None
    character: int | None = None


class LSPResult(CamelShape, frozen=True):
    """A language server answered."""

    operation: str = ""
    file_path: str = ""
    result: str = ""
    result_count: int | None = None
    file_count: int | None = None


ReadResult: TypeAlias = ReadText | ReadImage | ReadPdf | ReadParts | ReadNotebook | ReadUnchanged
