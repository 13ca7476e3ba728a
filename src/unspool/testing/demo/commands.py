"""What the demo's user does besides asking: slash commands, shell lines, skills, names, Esc."""

from __future__ import annotations

from unspool.testing.build import rewind, text, tool_use
from unspool.testing.demo.desk import Call
from unspool.testing.demo.program import Program

_CAVEAT = "<local-command-caveat>The user ran the command below; nobody asked you anything.</local-command-caveat>"
NOWHERE = "00000000-0000-0000-0000-000000000000"


def slash(run: Program, name: str, args: str, output: str, *, pause: float = 20) -> None:
    """A command of the program itself: its output is for the user. User lines until 2.1.99, system lines since."""
    run.wait(pause)
    run.history.append((f"/{name} {args}".rstrip(), run.now))
    asked, answered = command_line(name, args), f"<local-command-stdout>{output}</local-command-stdout>"
    if run.since(2, 1, 100):
        done = {"commandRun": {"command": name, "args": args}} if run.since(2, 1, 290) else {}
        run.system("local_command", asked, level="info", isMeta=False)
        run.system("local_command", answered, level="info", isMeta=False, **done)
        return
    run.say(_CAVEAT, isMeta=True)
    run.say(asked)
    run.say(answered)


def command_line(name: str, args: str) -> str:
    """How the program writes that a command was given."""
    space = "\n            "
    tags = {"command-name": f"/{name}", "command-message": name, "command-args": args}
    return space.join(f"<{tag}>{words}</{tag}>" for tag, words in tags.items())


def shell_line(run: Program, command: str, output: str, *, pause: float = 30) -> None:
    """`!command`: the user runs something and the model sees it."""
    run.wait(pause)
    run.history.append((f"!{command}", run.now))
    uuid = run.writer.ids.uuid()
    run.backups.at_prompt(uuid)
    if not run.since(2, 1, 200):
        run.say(_CAVEAT, isMeta=True)
    run.say(f"<bash-input>{command}</bash-input>", uuid=uuid)
    run.say(f"<bash-stdout>{output}</bash-stdout><bash-stderr></bash-stderr>")


def own_command(run: Program, name: str, args: str, expansion: str, *, pause: float = 40) -> None:
    """A command the user wrote: the model is sent its text."""
    words = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    given = f"{words}\n<command-args>{args}</command-args>"
    run.prompt(given, pause=pause, shown=f"/{name} {args}".rstrip(), human=False)
    run.say([text(expansion)], isMeta=True)
    run.attach("command_permissions", allowedTools=["Bash(git log:*)"])


def skill(run: Program, name: str, args: str, body: str, *, folder: str) -> None:
    """The model follows a skill: its text comes as something the user is made to say."""
    call = run.writer.ids.tool()
    use = tool_use("Skill", id=call, skill=name, args=args)
    run.answer(Call(use, f"Launching skill: {name}", {"success": True, "commandName": name}))
    words = f"Base directory for this skill: {folder}\n\n{body}\n\nARGUMENTS: {args}"
    run.say([text(words)], isMeta=True, sourceToolUseID=call)


def rename(run: Program, title: str) -> None:
    """The user gives the session a name."""
    run.titles |= {"custom-title": {"customTitle": title}, "agent-name": {"agentName": title}}
    run.note("custom-title", customTitle=title)
    run.note("agent-name", agentName=title)
    slash(run, "rename", title, f"Session renamed to: {title}")
    run.state()


def compact(run: Program, words: str, summary: str, *, keep: int = 0) -> None:
    """`/compact`, with what to keep in mind."""
    run.history.append((f"/compact {words}".rstrip(), run.now))
    run.compact(summary, keep=keep, trigger="manual")
    run.say(_CAVEAT, isMeta=True)
    run.say(command_line("compact", words))
    run.say("<local-command-stdout>Compacted (ctrl+o to see full summary)</local-command-stdout>")


def interrupt(run: Program, *, tool: bool = False) -> None:
    """Esc."""
    words = "[Request interrupted by user for tool use]" if tool else "[Request interrupted by user]"
    run.say([text(words)])


def go_back(run: Program, prompts: int = 1) -> None:
    """Esc Esc: back to before a prompt; what comes next is another branch."""
    rewind(prompts).write(run.writer)
    run.turn -= prompts
    run.note("last-prompt", leafUuid=NOWHERE, explicit=True)
