"""What is looked for in files, and what was found: the same whether ripgrep looks or we do. Data, and files by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

Mode: TypeAlias = Literal["content", "files_with_matches", "count"]

LONGEST: Final = 500
"""Bytes of a line that is still shown."""
SECONDS: Final = 20.0
TOO_LONG: Final = f"The search took more than {SECONDS:.0f} seconds. Try a more specific path, glob or pattern."


class Search(NamedTuple):
    """What is looked for."""

    pattern: str
    root: Path
    """A file, or a folder with all that is in it."""
    base: Path
    """The folder that globs are relative to."""
    mode: Mode
    globs: tuple[str, ...] = ()
    kind: str | None = None
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    enough: int | None = None
    """How many lines, or files, are enough."""


class Line(NamedTuple):
    """A line of a file."""

    number: int
    text: bytes
    is_match: bool


class Hits(NamedTuple):
    """A file in which something was found."""

    path: str
    matches: int = 0
    """How many lines match; only if they were to be counted."""
    lines: tuple[Line, ...] = ()
    """Only if they were to be shown."""


KINDS: Final = {
    "c": ("*.c", "*.h"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.h", "*.inl"),
    "csharp": ("*.cs",),
    "cs": ("*.cs",),
    "css": ("*.css", "*.scss"),
    "csv": ("*.csv",),
    "dart": ("*.dart",),
    "docker": ("*Dockerfile*",),
    "elixir": ("*.ex", "*.exs", "*.eex", "*.heex"),
    "go": ("*.go",),
    "haskell": ("*.hs", "*.lhs"),
    "html": ("*.htm", "*.html", "*.ejs"),
    "java": ("*.java", "*.jsp"),
    "js": ("*.js", "*.jsx", "*.vue", "*.cjs", "*.mjs"),
    "json": ("*.json",),
    "jsonl": ("*.jsonl",),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "make": ("[Mm]akefile", "*.mk", "GNUmakefile", "*.mak"),
    "markdown": ("*.md", "*.markdown", "*.mdx"),
    "md": ("*.md", "*.markdown", "*.mdx"),
    "perl": ("*.pl", "*.pm", "*.t"),
    "php": ("*.php", "*.phtml"),
    "protobuf": ("*.proto",),
    "py": ("*.py", "*.pyi"),
    "python": ("*.py", "*.pyi"),
    "r": ("*.r", "*.R", "*.Rmd"),
    "ruby": ("*.rb", "*.rbw", "Gemfile", "Rakefile", "*.gemspec"),
    "rust": ("*.rs",),
    "scala": ("*.scala", "*.sbt"),
    "sh": ("*.sh", "*.bash", "*.zsh", "*.ksh", "*.csh", ".bashrc", ".profile", ".zshrc"),
    "sql": ("*.sql",),
    "swift": ("*.swift",),
    "toml": ("*.toml", "Cargo.lock"),
    "ts": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "typescript": ("*.ts", "*.tsx", "*.cts", "*.mts"),
    "txt": ("*.txt",),
    "vue": ("*.vue",),
    "xml": ("*.xml", "*.xsd", "*.xsl", "*.xslt", "*.svg"),
    "yaml": ("*.yaml", "*.yml"),
    "zig": ("*.zig",),
}
"""Kinds of files by the names ripgrep has for them: those of most projects."""
