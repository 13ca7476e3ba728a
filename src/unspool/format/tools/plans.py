"""Inputs and results of the tools for todo lists, tasks, plans, questions, reviews and schedules."""

from typing import Any

from msgspec import field

from unspool.format.base import CamelShape, Shape


class Todo(CamelShape, frozen=True):
    """One item of a todo list. `id` and `priority` are of 1.0.x; `active_form` took their place."""

    content: str = ""
    status: str | None = None
    active_form: str | None = None
    id: str | int | None = None
    priority: str | None = None


class TodoReadInput(Shape, frozen=True):
    """Read the todo list (1.0.x)."""


class TodoWriteInput(Shape, frozen=True):
    """Replace the todo list (gone by 2.1.150). Some models wrote a string, or strings among the items."""

    todos: tuple[Todo | str, ...] | str = ()


class TodoWriteResult(CamelShape, frozen=True):
    """The todo list was replaced."""

    old_todos: tuple[Todo, ...] = ()
    new_todos: tuple[Todo, ...] = ()
    verification_nudge_needed: bool | None = None


class TaskItem(CamelShape, frozen=True):
    """One item of the list that came after the todo list: in results, and in `tasks/<session>/N.json`."""

    id: str = ""
    subject: str = ""
    description: str | None = None
    status: str | None = None
    active_form: str | None = None
    owner: str | None = None
    blocks: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None


class TaskCreateInput(CamelShape, frozen=True):
    """Add a task."""

    subject: str = ""
    description: str | None = None
    active_form: str | None = None
    metadata: dict[str, Any] | None = None


class TaskCreateResult(CamelShape, frozen=True):
    """A task was added."""

    task: TaskItem | None = None


class TaskUpdateInput(CamelShape, frozen=True):
    """Change a task."""

    task_id: str = ""
    status: str | None = None
    subject: str | None = None
    description: str | None = None
    active_form: str | None = None
    owner: str | None = None
    add_blocks: tuple[str, ...] | None = None
    add_blocked_by: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None


class StatusChange(Shape, frozen=True):
    """How a task's status changed."""

    from_: str | None = field(default=None, name="from")
    to: str | None = None


class TaskUpdateResult(CamelShape, frozen=True):
    """A task was changed, or could not be."""

    success: bool = False
    task_id: str = ""
    updated_fields: tuple[str, ...] = ()
    status_change: StatusChange | None = None
    error: str | None = None
    verification_nudge_needed: bool | None = None


class TaskListInput(Shape, frozen=True):
    """List the tasks."""


class TaskListResult(CamelShape, frozen=True):
    """The tasks were listed."""

    tasks: tuple[TaskItem, ...] = ()


class TaskGetInput(CamelShape, frozen=True):
    """Read a task."""

    task_id: str = ""


class TaskGetResult(CamelShape, frozen=True):
    """A task was read; null when there is none of that id."""

    task: TaskItem | None = None


class EnterPlanModeInput(Shape, frozen=True):
    """Enter plan mode."""


class EnterPlanModeResult(CamelShape, frozen=True):
    """The session is in plan mode."""

    message: str = ""


class AllowedPrompt(Shape, frozen=True):
    """A permission that is requested with the plan."""

    tool: str = ""
    prompt: str = ""


class ExitPlanModeInput(CamelShape, frozen=True):
    """Submit a plan; the tool was `exit_plan_mode` at first. From 2.0.55 on the plan is in a file."""

    plan: str | None = None
    plan_file_path: str | None = None
    allowed_prompts: tuple[AllowedPrompt, ...] | None = None
    push_to_remote: bool | None = None
    remote_session_id: str | None = None
    remote_session_url: str | None = None
    remote_session_title: str | None = None


class ExitPlanModeResult(CamelShape, frozen=True):
    """A plan was accepted. One that was rejected is a `TextResult`."""

    plan: str | None = None
    is_agent: bool | None = None
    file_path: str | None = None
    has_task_tool: bool | None = None
    plan_was_edited: bool | None = None
    awaiting_leader_approval: bool | None = None
    request_id: str | None = None


class QuestionOption(Shape, frozen=True):
    """An answer that the user can choose."""

    label: str = ""
    description: str | None = None
    preview: str | None = None


class QuestionItem(CamelShape, frozen=True):
    """A question to the user."""

    question: str = ""
    header: str | None = None
    options: tuple[QuestionOption, ...] = ()
    multi_select: bool | None = None


class Annotation(CamelShape, frozen=True):
    """A note of the user on an answer (from 2.1.45)."""

    preview: str | None = None
    notes: str | None = None
    unanswered: str | None = None


class AskUserQuestionInput(Shape, frozen=True):
    """Ask the user questions."""

    questions: tuple[QuestionItem, ...] = ()
    question: str | None = None
    answers: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class AskUserQuestionResult(CamelShape, frozen=True):
    """The user's answers: `answers` and `annotations` by the text of the question."""

    questions: tuple[QuestionItem, ...] = ()
    answers: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Where several options may be chosen, an answer may be a list."""
    annotations: dict[str, Annotation] | None = None
    response: str | None = None
    afk_timeout_ms: int | float | None = None


def join_answer(answer: str | tuple[str, ...]) -> str:
    """Return an answer as one text: where several options were chosen, they may be a list."""
    return answer if isinstance(answer, str) else ", ".join(answer)


class ReviewFinding(Shape, frozen=True):
    """A finding of a code review."""

    file: str = ""
    line: int | None = None
    summary: str = ""
    short_summary: str | None = None
    failure_scenario: str | None = None
    category: str | None = None
    verdict: str | None = None
    outcome: str | None = None


class ReportFindingsInput(Shape, frozen=True):
    """Submit a code review."""

    findings: tuple[ReviewFinding, ...] = ()
    level: str | None = None


class ReportFindingsResult(Shape, frozen=True):
    """A code review was submitted."""

    count: int | None = None
    findings: tuple[ReviewFinding, ...] = ()
    level: str | None = None


class ScheduleWakeupInput(CamelShape, frozen=True):
    """Schedule a wake-up of the session."""

    delay_seconds: int | float | None = None
    reason: str | None = None
    prompt: str | None = None
    stop: bool | None = None
    noop: bool | None = None


class ScheduleWakeupResult(CamelShape, frozen=True):
    """A wake-up was scheduled or cancelled."""

    scheduled_for: int | float | None = None
    """Milliseconds since 1970; 0 when stopped."""
    clamped_delay_seconds: int | float | None = None
    was_clamped: bool | None = None
    stopped: bool | None = None
    cancelled_wakeups: int | None = None


class CronCreateInput(Shape, frozen=True):
    """Schedule a prompt."""

    cron: str = ""
    prompt: str = ""
    recurring: bool | None = None
    durable: bool | None = None


class CronJob(CamelShape, frozen=True):
    """A scheduled prompt."""

    id: str = ""
    cron: str | None = None
    human_schedule: str | None = None
    prompt: str | None = None
    recurring: bool | None = None
    durable: bool | None = None
    next_fire_at: int | float | None = None


class CronCreateResult(CamelShape, frozen=True):
    """A prompt was scheduled."""

    id: str = ""
    human_schedule: str | None = None
    recurring: bool | None = None
    durable: bool | None = None
    next_fire_at: int | float | None = None


class CronDeleteInput(Shape, frozen=True):
    """Cancel a scheduled prompt."""

    id: str = ""


class CronDeleteResult(CamelShape, frozen=True):
    """A scheduled prompt was cancelled."""

    id: str = ""
    ended_loop_wakeup: bool | None = None


class CronListInput(Shape, frozen=True):
    """List the scheduled prompts."""


class CronListResult(CamelShape, frozen=True):
    """The scheduled prompts were listed."""

    jobs: tuple[CronJob, ...] = ()
