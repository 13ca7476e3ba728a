"""Inputs and results of Bash, PowerShell and the tools for background commands.

Here and in the other modules of tools: what all versions write has an empty default, what only some versions write is
`None` where it is absent.
"""

from typing import Any

from msgspec import field

from unspool.format.base import CamelShape, Shape


class SedEdit(CamelShape, frozen=True):
    """The file that a `sed -i` would write, computed before permission is asked for (2.1.29)."""

    file_path: str = ""
    new_content: str = ""


class BashInput(Shape, frozen=True):
    """Run a command; PowerShell takes the same."""

    command: str = ""
    description: str | None = None
    timeout: int | float | None = None
    """Milliseconds."""
    run_in_background: bool | None = None
    dangerously_disable_sandbox: bool | None = field(default=None, name="dangerouslyDisableSandbox")
    simulated_sed_edit: SedEdit | None = field(default=None, name="_simulatedSedEdit")


class Commit(CamelShape, frozen=True):
    """A commit that a command made."""

    sha: str | None = None
    kind: str | None = None
    """`committed`, `amended` or `cherry-picked`."""
    branch: str | None = None


class Push(CamelShape, frozen=True):
    """A branch that a command pushed."""

    branch: str | None = None


class GitBranch(CamelShape, frozen=True):
    """A branch that a command merged or rebased."""

    ref: str | None = None
    action: str | None = None


class PullRequest(CamelShape, frozen=True):
    """A pull request that a command made or changed."""

    number: int | None = None
    url: str | None = None
    action: str | None = None


class GitOperation(CamelShape, frozen=True):
    """What a command did to a repository (from 2.1.161)."""

    commit: Commit | None = None
    push: Push | None = None
    branch: GitBranch | None = None
    pr: PullRequest | None = None


class BashResult(CamelShape, frozen=True):
    """A command ended or was moved to the background. One that failed is a `TextResult` instead."""

    stdout: str = ""
    stderr: str = ""
    interrupted: bool = False
    is_image: bool = False
    """`stdout` is an image in base64."""
    return_code_interpretation: str | None = None
    """The meaning of a non-zero exit code of this command: "No matches found" for grep."""
    no_output_expected: bool | None = None
    background_task_id: str | None = None
    backgrounded_by_user: bool | None = None
    assistant_auto_backgrounded: bool | None = None
    background_cwd_hint: str | None = None
    background_ends_with_final_response: bool | None = None
    background_wakes_owner: bool | None = None
    timed_out_after_ms: int | float | None = None
    raw_output_path: str | None = None
    persisted_output_path: str | None = None
    """The file under `tool-results/` that holds the whole of a long output."""
    persisted_output_size: int | None = None
    git_operation: GitOperation | None = None
    gh_rate_limit_hint: str | None = None
    stale_read_file_state_hint: str | None = None
    structured_content: tuple[Any, ...] | None = None
    dangerously_disable_sandbox: bool | None = None
    sandbox: bool | None = None
    """Only in 1.0.17."""


class BashOutputInput(Shape, frozen=True):
    """Read the output of a background command; TaskOutput does it since."""

    bash_id: str = ""
    filter: str | None = None


class BashOutputResult(CamelShape, frozen=True):
    """The output of a background command since it was last read."""

    shell_id: str = ""
    command: str | None = None
    status: str | None = None
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    stdout_lines: int | None = None
    stderr_lines: int | None = None
    timestamp: str | None = None


class KillShellInput(Shape, frozen=True):
    """Stop a background command; the tool was KillBash before, and is TaskStop since."""

    shell_id: str = ""


class KillShellResult(Shape, frozen=True):
    """A background command was stopped; KillBash also wrote `success`."""

    message: str = ""
    shell_id: str = ""
    success: bool | None = None


class TaskOutputInput(Shape, frozen=True):
    """Read the output of a background command or agent; for agents the tool was AgentOutputTool before."""

    task_id: str = ""
    block: bool | None = None
    timeout: int | float | None = None
    agent_id: str | None = field(default=None, name="agentId")
    wait_up_to: int | float | None = None


class BackgroundTaskState(Shape, frozen=True):
    """A command (`local_bash`) or an agent (`local_agent`) in the background."""

    task_id: str = ""
    task_type: str | None = None
    status: str | None = None
    description: str | None = None
    output: str | None = None
    exit_code: int | None = field(default=None, name="exitCode")
    prompt: str | None = None
    result: Any = None
    error: Any = None


class TaskOutputResult(Shape, frozen=True):
    """The state of a background task."""

    retrieval_status: str | None = None
    """`success`, or `timeout` while it still runs."""
    task: BackgroundTaskState | None = None


class TaskStopInput(Shape, frozen=True):
    """Stop a background command or agent."""

    task_id: str | None = None
    shell_id: str | None = None


class TaskStopResult(Shape, frozen=True):
    """A background task was stopped."""

    message: str = ""
    task_id: str | None = None
    task_type: str | None = None
    command: str | None = None


class WebSocket(Shape, frozen=True):
    """The socket that Monitor reads when it has no command (2.1.325)."""

    url: str = ""
    protocols: tuple[str, ...] | None = None


class MonitorInput(Shape, frozen=True):
    """Watch the output of a command or a socket."""

    description: str = ""
    command: str | None = None
    timeout_ms: int | float | None = None
    persistent: bool | None = None
    ws: WebSocket | None = None


class MonitorResult(CamelShape, frozen=True):
    """A monitor was started."""

    task_id: str = ""
    timeout_ms: int | float | None = None
    persistent: bool | None = None
