"""Tool calls as sessions hold them: what the model asks, what it is told, and the structured result beside it.

How often each tool is called and how large its results are follows counts over real files (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeAlias

from bench.words import Words

Json: TypeAlias = dict[str, Any]


class Call(NamedTuple):
    """One tool call and its result."""

    name: str
    input: Json
    content: str | list[Json]
    """What the model is told."""
    structured: Any
    """What `toolUseResult` holds."""
    error: bool = False


class Tools:
    """Makes calls; knows how the era writes their results."""

    def __init__(self, words: Words, random: Random, folder: str, *, newest: bool) -> None:
        self._words = words
        self._random = random
        self._folder = folder
        self._newest = newest
        """Edits no longer answer with numbered lines, and reads number theirs with a tab instead of an arrow."""
        todo = self._task if newest else self._todo
        self._tools: list[Callable[[], Call]] = [
            self._read, self._bash, self._edit, self._grep, todo, self._glob, self._write, self._mcp, self._web,
        ]  # fmt: skip
        self._weights = [51, 50, 21, 10, 8, 7, 4.6, 2.7, 2.6]

    def call(self) -> Call:
        """A call of any tool but the one that starts agents; one of 18 fails."""
        (make,) = self._random.choices(self._tools, self._weights)
        call = make()
        if self._random.random() > 0.055:
            return call
        words = f"Exit code 1\n{self._words.shell(self._words.size(300, 1.2, 20_000))}"
        return Call(call.name, call.input, words, f"Error: {words}", error=True)

    def agent(self, agent_id: str, prompt: str) -> Call:
        """The call that starts an agent, with its report."""
        report = [{"type": "text", "text": self._words.prose(self._words.size(3500, 0.8))}]
        structured = {
            "status": "completed",
            "prompt": prompt,
            "agentId": agent_id,
            "content": report,
            "totalDurationMs": int(self._random.random() * 300_000),
            "totalTokens": int(self._random.random() * 90_000),
            "totalToolUseCount": int(self._random.random() * 40),
        }
        input = {"description": self._words.name(), "prompt": prompt, "subagent_type": "Explore"}
        return Call("Agent" if self._newest else "Task", input, report, structured)

    def picture(self, *, large: float = 0.0) -> Json:
        """An image block; with some chance one of a megabyte or more."""
        if self._random.random() < large:
            length = int(1_000_000 + self._random.random() * 2_500_000)
        else:
            length = self._words.size(50_000, 0.9, 900_000)
        data = self._words.base64(length)
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    def _read(self) -> Call:
        path = self._words.path(self._folder)
        if self._random.random() < 0.008:
            block = self.picture()
            file = {"base64": block["source"]["data"], "type": "image/png", "originalSize": 4096}
            return Call("Read", {"file_path": path}, [block], {"type": "image", "file": file})
        lines = self._words.code(self._words.size(3000, 1.25, 100_000))
        start = 1 if self._random.random() < 0.7 else int(self._random.random() * 900) + 1
        file = {
            "filePath": path,
            "content": "\n".join(lines),
            "numLines": len(lines),
            "startLine": start,
            "totalLines": start + len(lines),
        }
        input = {"file_path": path} if start == 1 else {"file_path": path, "offset": start, "limit": len(lines)}
        return Call("Read", input, self._numbered(lines, start), {"type": "text", "file": file})

    def _bash(self) -> Call:
        output = self._words.shell(self._words.size(380, 1.65, 30_000))
        input = {"command": f"cd {self._folder} && make {self._words.name()} 2>&1 | tail -50"}
        if self._random.random() < 0.8:
            input["description"] = self._words.prose(40)
        if self._random.random() < 0.08:
            input["command"] = f"cat > out.py <<'EOF'\n{self._text(1500)}\nEOF"
        structured = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return Call("Bash", input, output, structured)

    def _edit(self) -> Call:
        path = self._words.path(self._folder)
        original = self._words.code(self._words.size(10_500, 1.2))
        removed = self._words.code(self._words.size(260, 1.0, 8000))
        added = self._words.code(self._words.size(360, 1.0, 8000))
        old, new = "\n".join(removed), "\n".join(added)
        input = {"file_path": path, "old_string": old, "new_string": new}
        content = f"The file {path} has been updated successfully."
        if not self._newest:
            content = f"The file {path} has been updated. Here is a snippet:\n{self._numbered(added, 40)}"
        structured = {
            "filePath": path,
            "oldString": old,
            "newString": new,
            "originalFile": "\n".join(original),
            "structuredPatch": [_hunk(removed, added)],
            "userModified": False,
            "replaceAll": False,
        }
        return Call("Edit", input, content, structured)

    def _write(self) -> Call:
        path, text = self._words.path(self._folder), self._text(2600)
        original = self._text(5000) if self._random.random() < 0.3 else None
        structured: Json = {
            "type": "update" if original else "create",
            "filePath": path,
            "content": text,
            "structuredPatch": [],
            "originalFile": original,
        }
        return Call("Write", {"file_path": path, "content": text}, f"File written: {path}", structured)

    def _grep(self) -> Call:
        found = self._words.shell(self._words.size(800, 1.3, 30_000))
        lines = found.count("\n") + 1
        input = {"pattern": self._words.name(), "path": self._folder, "output_mode": "content", "-n": True}
        structured: Json = {"mode": "content", "numFiles": 0, "filenames": [], "content": found, "numLines": lines}
        return Call("Grep", input, found, structured)

    def _glob(self) -> Call:
        names = [self._words.path(self._folder) for _ in range(self._words.size(8, 1.0, 100))]
        structured = {"filenames": names, "durationMs": 34, "numFiles": len(names), "truncated": False}
        return Call("Glob", {"pattern": "**/*.py"}, "\n".join(names), structured)

    def _todo(self) -> Call:
        todos = [self._words.prose(45) for _ in range(3 + int(self._random.random() * 6))]
        new = [{"content": text, "status": "pending", "activeForm": text} for text in todos]
        content = "Todos have been modified successfully. Please proceed with the current tasks if applicable"
        return Call("TodoWrite", {"todos": new}, content, {"oldTodos": new[1:], "newTodos": new})

    def _task(self) -> Call:
        number, change = str(int(self._random.random() * 20)), {"from": "pending", "to": "in_progress"}
        structured = {"success": True, "taskId": number, "updatedFields": ["status"], "statusChange": change}
        content = f"Updated task #{number} status"
        return Call("TaskUpdate", {"taskId": number, "status": "in_progress"}, content, structured)

    def _mcp(self) -> Call:
        content: list[Json] = [{"type": "text", "text": self._words.prose(self._words.size(1800, 1.5, 90_000))}]
        if self._random.random() < 0.04:
            content.append(self.picture())
        return Call(f"mcp__{self._words.word()}__{self._words.name()}", {"id": 7}, content, content)

    def _web(self) -> Call:
        query, text = self._words.prose(60), self._words.prose(self._words.size(4000, 0.7))
        links = [{"title": self._words.prose(50), "url": f"https://{self._words.word()}.example"} for _ in range(8)]
        results = [{"tool_use_id": "srvtoolu_1", "content": links}, text]
        structured = {"query": query, "results": results, "durationSeconds": 8.125}
        return Call("WebSearch", {"query": query}, f'Web search results for "{query}"\n\n{text}', structured)

    def _text(self, median: int) -> str:
        return "\n".join(self._words.code(self._words.size(median, 1.1, 60_000)))

    def _numbered(self, lines: list[str], start: int) -> str:
        if self._newest:
            return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, start))
        return "\n".join(f"{number:6}→{line}" for number, line in enumerate(lines, start))


def _hunk(removed: list[str], added: list[str]) -> Json:
    lines = [f"-{line}" for line in removed] + [f"+{line}" for line in added]
    return {"oldStart": 12, "oldLines": len(removed), "newStart": 12, "newLines": len(added), "lines": lines}
