"""Generate shell commands for the differential fuzz, from a grammar that contains the shapes of known attacks.

Rules
  1. A command is simple commands joined by operators. A simple command is a program that the judge knows, options from
     its table, and files of the planted project; so most are allowed.
  2. Shapes (`SHAPES`) are what a shell may read otherwise than the judge: braces, joined lines, odd quotes, variables,
     tildes, patterns, redirections. Each is a function of a word or of a command, and is used now and then.
  3. Options (`OTHER_OPTIONS`) that are not in the tables are used now and then, too, and abbreviations of long ones.
  4. A focus names programs and shapes that are used most of the time.
  5. The same seed makes the same commands.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from unspool.permissions import shell_readonly

INSIDE = ("a", "b", "c.txt", "src/a.py", "src/b.py", "src/deep/notes.md", "d/x", ".env", "data.json", "'un it'", "'é'",
          "src", "src/deep", ".", "d", "inner", "inner/notes.md", "./a", "src/../a", "nothing", "names", "~/project/a",
          "$HOME/project/b", '"$HOME/project/src"', "evil.sh", "--", "-", "x=", "src/")  # fmt: skip
GLOBS = ("*.txt", "src/*.py", "src/?.py", "?.txt", "d/?", "src/deep/*", "no*such", "data.*", "nam*", "s*/deep/*.md")
OUTSIDE = ("../guarded/secret.txt", "~/guarded/secret.txt", "link/secret.txt", "link1", "src/linked", "/etc/shadow",
           "../guarded", "link", "$HOME/.netrc", "-x/../../guarded/secret.txt", "3", "lib/key.pem", "..", "/root",
           "src/../../guarded/secret.txt", "d/out/secret.txt", "/proc/self/environ", "~/.ssh/id_ed25519")  # fmt: skip
WIDE_GLOBS = ("*", "-*", "../*", "li*", "l?nk1", "*/*", "**/secret.txt", "**/far", "**/fa?", "'~'/project/d/?",
    "\\~/project/d/?", "src/l*", "~/g*/s*", "~+/*", "~+/link*", "[l]ink1",
              "-x/*", "\\[a\\]*", "'[a]'*", "~/*", "a?", "?")  # fmt: skip
_TEXTS = (
    "x",
    "'one a'",
    '"two b"',
    "one",
    "1",
    "2",
    "-1",
    "+%s",
    "1,2",
    ":",
    "'a b'",
    "\\*",
    '"a\\"b"',
    "a=b",
    "%s",
    "''",
)
_NUMBERS = ("1", "2", "3", "5", "0", "10")

OTHER_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "sort": ("-o pwned", "-opwned", "-uo pwned", "--output=pwned", "--outp=pwned", "--files0-from=names0", "-T .",
             "--random-source=link1 -R", "--compress-program=./evil.sh"),
    "grep": ("-e one link1", "--regexp=one link1", "-f link1", "-flink1", "--file=link1", "--fil=link1", "-R",
        "--dereference-recursive", "-d recurse",
             "--exclude-from=link1"),
    "rg": ("--pre=./evil.sh", "--pre ./evil.sh", "-f link1", "--file=link1", "-L", "--follow", "--ignore-file=link1",
        "-z"),
    "uniq": ("a pwned", "-- a pwned"),
    "tree": ("-o pwned", "-Lo 1 pwned", "-l", "--fromfile", "-R -L 1 -H x", "--infofile=link1"),
    "date": ("-f link1", "-flink1", "-uflink1", "--file=link1", "--file link1", "-r link1", "--reference=link1",
        "-r ../guarded/secret.txt", "--reference=../guarded/secret.txt"),
    "wc": ("--files0-from=names0", "--files0-f=names0", "--files0-from names0"),
    "du": ("--files0-from=names0", "-X link1", "--exclude-from=link1", "-L", "-D link"),
    "file": ("-f names", "--files-from names", "-m link1", "-C -m a", "-z a"),
    "md5sum": ("-c sums", "--check sums"), "sha1sum": ("-c sums",), "sha256sum": ("-c sums256", "--check sums256"),
    "sha224sum": ("-c sums",), "sha384sum": ("-c sums",), "sha512sum": ("-c sums",), "b2sum": ("-c sums",),
    "cksum": ("--check sums", "-a md5 -c sums"), "shasum": ("-c sums1", "--check sums1"),
    "strings": ("@options", "@link1"),
    "diff": ("--from-file=link1 a", "--to-file=link1 a", "-r . link", "-rq src d", "-l a b", "-X link1 a b",
             "--exclude-from=link1 a b"),
    "sed": ("-i s/o/p/ a", "-n -i p a", "--in-place s/o/p/ a", "-f link1 a", "-nf link1 a", "--file=link1 a",
            "'1e touch pwned' a", "'s/o/x/e' a", "'w pwned' a", "'s/o/x/w pwned' a", "'1r link1' a", "'1R link1' a",
            "-s -n p a link1", "-n '1w pwned' a", "-n 's/one a/touch pwned/e' a", "-n p link1", "p link1"),
    "find": ("-L link", "-follow link", "-exec touch pwned \\;", "-execdir touch pwned \\;", "-ok touch pwned \\;",
             "-delete", "-fprint pwned", "-fprint0 pwned", "-fprintf pwned x", "-fls pwned", "-files0-from names0",
             "-newer ../guarded/secret.txt", "-samefile ../guarded/secret.txt", "-anewer ../guarded/secret.txt",
             "-cnewer ../guarded/secret.txt", "-newermt link", "d -delete"),
    "jq": ("-f link1", "--from-file link1", "--slurpfile x link1 .", "--rawfile x link1 .", "-L link .", "env",
        "-n env",
           "'$ENV'", "-n '$ENV'", "-n 'env.ANTHROPIC_API_KEY'", "-n '$__prog_args'", "-n 'import \"x\" as $x; 1'"),
    "hexdump": ("-f link1 a", "-flink1 a", "-e '\"%x\"' link1"),
    "od": ("--traditional link1", "-w link1"),
    "ps": ("e", "auxe", "-o args e", "auxwwe", "axe", "-fe e"),
    "hostname": ("-f", "-A", "-i", "-d", "x"),
    "realpath": ("--relative-to=../guarded a", "--relative-base=../guarded a", "--relative-to ../guarded a"),
    "printf": ("x%n PATH", "'%n' PATH", "-v PATH x", "%d 'PATH=1'", "'%*d' 'PATH=1' 1", "'%.*d' PATH=1 1", "%d PATH=1",
               "%i 'a[PATH=1]'", "%x 'PATH=1'", "'%d%s' 'PATH=1' x", "%s%n x PATH", "'%ln' PATH"),
    "test": ("-v 'a[$(touch pwned)]'", "PATH=1 -eq 1", "1 -eq 'PATH=1'", "'a[PATH=1]' -eq 1",
        "-f ../guarded/secret.txt",
             "-e ~/.netrc", "a -nt ../guarded/secret.txt", "-R x", "1 -gt 'PATH=1'", "'PATH=1' -lt 1"),
    "[": ("-v 'a[$(touch pwned)]' ]", "'PATH=1' -eq 1 ]", "1 -eq 'PATH=1' ]", "-f ../guarded/secret.txt ]",
        "-e ~/.netrc ]",
          "a -ef ../guarded/secret.txt ]", "1 -eq 1 -a -e ../guarded/secret.txt ]"),
    "git": ("-c core.fsmonitor=./evil.sh status", "-C .. status", "diff --output=pwned", "diff --outp=pwned",
            "log -p --output=pwned", "log --output=pwned", "branch new", "tag new", "stash",
            "config alias.x '!touch pwned'",
            "diff --no-index a ../guarded/secret.txt", "diff a ../guarded/secret.txt", "-c core.pager=./evil.sh -p log",
            "diff --no-index a link1", "blame --contents link1 a", "blame -S link1 a", "grep -O./evil.sh one",
            "ls-files -X link1", "check-ignore --stdin", "show --output=pwned", "worktree add pwned",
            "-c alias.x='!touch pwned' x", "-c diff.external=./evil.sh diff", "remote add x y", "reflog expire --all",
            "reflog delete x", "rev-parse --parseopt", "log -O../guarded/secret.txt", "diff -O../guarded/secret.txt",
            "cat-file --batch", "stash show", "whatchanged --output=pwned",
            "blame --ignore-revs-file=../guarded/secret.txt a",
            "status --porcelain", "-c core.fsmonitor=./evil.sh status",
            "ls-files --exclude-from=../guarded/secret.txt -o",
            "shortlog --output=pwned HEAD", "rev-list --output=pwned HEAD", "diff-tree --output=pwned HEAD -p",
            "cat-file -p HEAD:a", "cat-file --textconv HEAD:a", "ls-files -X ../guarded/secret.txt -o -i",
            "describe --dirty", "update-index --refresh", "branch -D main", "branch -m x", "tag -d x", "tag -F link1 x",
            "stash push", "worktree prune", "remote prune x", "branch --edit-description", "remote rename a b"),
    "command": ("touch pwned", "-p touch pwned", "cat link1", "-pv ls"),
    "cd": ("project guarded && cat secret.txt", "project guarded; cat key.pem", "-; cat secret.txt",
        "- && cat key.pem", "link && cat secret.txt", "link; cat secret.txt", "..; cat guarded/secret.txt", "-; ls",
            "inner/..; cat a"),
    "ls": ("-L link", "-R link", "--dereference", "link/"), "dir": ("link/",), "vdir": ("link/",),
    "cmp": ("a link1", "-s a link1", "a b 0 0"), "tail": ("--pid=1 a", "-s 1 a"), "readlink": ("-f link1", "-e link1"),
    "df": ("link/secret.txt", "--sync a"), "stat": ("-L link1", "link/secret.txt"),
    "python3": ("evil.py", "-c 'open(\"pwned\",\"w\")'", "-m http.server --help"), "python": ("evil.py",),
    "bash": ("-c 'touch pwned'", "evil.sh", "--version -c x"), "zsh": ("-c 'touch pwned'", "evil.sh", "-f evil.sh"),
    "perl": ("-e 'open(F,\">pwned\")'", "link1"), "node": ("-e 'require(\"fs\").writeFileSync(\"pwned\",\"\")'",),
    "sqlite3": ("pwned 'create table x(y)'", "-cmd '.shell touch pwned' x", "pwned .databases"),
    "gcc": ("-x c -c a -o pwned", "-E -x c link1", "-c a"), "g++": ("-E -x c++ link1",), "cc": ("-E -x c link1",),
    "cmake": ("-E touch pwned", "-P link1", "-E cat link1"), "curl": ("file://../guarded/secret.txt", "-K link1",
        "-o pwned file:///etc/hostname"),
    "psql": ("-h 127.0.0.1 -p 1", "-f link1 -h 127.0.0.1 -p 1"), "java": ("-jar link1", "link1.java", "@link1"),
    "javac": ("@link1", "link1"), "pip": ("download x -d pwned", "install -r link1", "config list"),
    "pip3": ("install -r link1",), "ruby": ("-e 'File.write(\"pwned\",\"\")'",), "php": ("link1",),
    "clang": ("-E -x c link1",), "gh": ("auth status",),
    "locale": ("-k x",), "id": ("root",), "which": ("-a ls", "../guarded/secret.txt", "-a ~/.netrc"), "type": ("-a ls",
        "../guarded/secret.txt"), "expr": ("1 + 1", "a : b"),
    "column": ("-t link1",), "timeout": ("1 touch pwned", "1 echo x", "1 printf x", "1 cat link1", "1 time ls",
        "1 true"),
    "nice": ("touch pwned", "-n 1 echo x", "echo x", "pwd", "-n 5 cat link1"), "time": ("ls", "-p ls", "touch pwned",
        "echo"),
}  # fmt: skip
"""Words that are not what a command that only reads would have."""
_SPECIAL_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "printf": ("%s\\\\n {text}", "'%s %s\\n' {text} {text}", "'%d\\n' 5", "'x%%y'", "'%5.2f' 1.5", "{text}"),
    "test": ("-f {file}", "-d {file}", "{text} = {text}", "1 -lt 2", "-n {text}", "! -e {file}", "{file} -nt {file}"),
    "[": ("-f {file} ]", "{text} != {text} ]", "3 -ge 2 ]", "-z {text} ]", "{file} -ef {file} ]", "! -s {file} ]"),
    "find": ("{file} -name '*.py'", "{file} -maxdepth 2 -type f", "{file} -newer {file}", "{file} ! -name x -print",
             "{file} \\( -name a -o -name b \\) -print0", "{file} -size +1 -ls", "-name x", "{file} -printf '%p\\n'",
             "{file} -regex '.*a' -prune", "{file} -empty", "{file} -xtype l", "{file} -perm -4 -user root"),
    "sed": ("-n 1p {file}", "-n '1,2p' {file}", "s/o/x/g {file}", "-n '/one/p' {file}", "-E 's/(o)/x/;2d' {file}",
        "$= {file}",
            "-n -e 1p -e 2p {file}", "'2q' {file}", "'s|a|\\||gI' {file}", "-e p {file}"),
    "git": ("status", "status --short", "log --oneline -3", "diff", "diff --stat", "diff -- {file}", "show HEAD",
        "show HEAD:a",
            "log -p -1", "branch -a", "blame {file}", "ls-files", "rev-parse HEAD", "diff HEAD {file}",
            "log --format=%H",
            "--no-pager log -2", "remote -v", "tag -l", "stash list", "describe --always", "shortlog -s HEAD",
            "cat-file -p HEAD",
            "ls-tree HEAD", "check-ignore {file}", "show --stat", "for-each-ref", "rev-list --count HEAD",
            "diff --cached"),
    "command": ("-v {name}", "-V {name}"),
    "true": ("",), "false": ("",), ":": ("", "{text}"), "expr": ("1 + 2", "{text} : {text}", "length {text}", "{text}"),
    "echo": ("{text}", "{text} {text}", "-n {text}", "$?", '"code $?"', "$HOME", "-e '\\x41'", "~", "{glob}", "{file}"),
    "timeout": ("5 {simple}", "-k 1 5 {simple}", "--signal=TERM 5 {simple}"),
    "mkdir": ("new", "-p new/x", "-pv d/new", "src/new d/y"), "touch": ("new", "{file}", "-c {file}", "d/new"),
    "rmdir": ("d", "-x", "nothing"), "cp": ("{file} new", "{file} d", "-n {file} b", "a b d", "{file} src/deep"),
    "mv": ("{file} new", "{file} d", "-n a b", "c.txt d/x"), "rm": ("{file}", "-f {file}", "-v a b"),
    "nice": ("{simple}", "-n 5 {simple}"), "time": ("{simple}", "-p {simple}"),
    "cd": ("src && {simple}", "src; {simple}", "src/deep && {simple}", "inner && {simple}", "d || {simple}", "{file}"),
    "jq": (". data.json", "-r .a data.json", "'.a[0]' data.json", "-c . {file}", "-n 1"),
    "date": ("", "+%s", "-u", "-d 2020-01-01", "-r {file}", "+%Y --utc"), "ps": ("aux", "-ef", "-p 1 -o pid"),
    "seq": ("3", "1 3", "-w 1 2 9", "-s , 3"), "sleep": ("0", "0.01"), "tr": ("a b", "-d x", "-s ' '"),
    "head": ("-{number} {file}", "-n {number} {file}", "-c{number} {file}"), "cut": ("-d' ' -f1 {file}",
        "-c1-3 {file}"),
    "tail": ("-n {number} {file}", "-{number} {file}", "-n +2 {file}", "-c 5 {file} {file}"),
    "uniq": ("{file}", "-c {file}", "-f {number} -s 1 {file}"), "nproc": ("", "--all"), "fold": ("-w {number} {file}",),
    "stat": ("{file}", "-c %n {file}", "-f {file}"), "paste": ("-d , -d : {file} {file}", "{file} {file}", "-s {file}"),
    "od": ("-c {file}", "-An -tx1 {file}"), "hexdump": ("-C {file}",), "nl": ("-s : -s , {file}", "{file}"),
    "column": ("-t {file}", "-t -s : {file}"), "diff": ("{file} {file}", "-u a b", "-q a c.txt", "-y a b", "src d"),
    "hostname": ("", "-s", "-I"), "which": ("{name}", "-a {name}"), "type": ("{name}", "-t {name}"), "id": ("", "-u",
        "-gn"),
    "df": ("", "-h", "-h .", "{file}"), "free": ("", "-m"), "file": ("{file}", "-b {file}", "--mime-type {file}"),
    "tac": ("{file}", "-s : {file}"), "comm": ("a b", "-12 {file} {file}"), "cmp": ("{file} {file}", "-s a b"),
    "basename": ("{file}", "-s .py {file}", "-a {file} {file}"), "dirname": ("{file}", "{file} {file}"),
}  # fmt: skip
EDITORS: Final = ("mkdir", "touch", "rmdir", "cp", "mv", "rm")
"""Programs that are allowed where edits are."""
_EDIT_REDIRECTIONS = (" > new", " >> a", " > d/new", " 2> new", " >new 2>&1", " >> src/log", " >! b", " >! .git/config",
                      " > .git/config", " > d/out/pwned", " > link1", " >&1x", " > new < a")  # fmt: skip
_OPERATORS = ("; ", " && ", " || ", " | ", "\n", " | ", " ;", "&&")
_WILD_OPERATORS = (" & ", " |& ", "\n\n", " ;; ", " &\n", " #x\n", "\\\n", "; # y\n", " \n# z\n", "&", " | \n")


class Focus(NamedTuple):
    """What most commands are to contain."""

    programs: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()


class CommandGenerator:
    """Generates commands; the same seed makes the same."""

    def __init__(self, seed: int, focus: Focus = Focus(), *, wild: float = 0.2) -> None:  # noqa: B008 - immutable
        self.random = random.Random(seed)
        self._focus, self._wild = focus, wild

    def generate(self) -> Iterator[str]:
        """Return commands without an end."""
        while True:
            yield self.make_command()

    def make_command(self) -> str:
        """Return a command."""
        count = self.random.choices((1, 2, 3), (6, 3, 1))[0]
        text = self.make_simple()
        for _ in range(count - 1):
            operators = _WILD_OPERATORS if self._is_wild(0.3, "operator") else _OPERATORS
            text += self.random.choice(operators) + self.make_simple()
        if self._is_wild(0.4) or self._focus.shapes:
            text = self._shape_command(text)
        return text

    def make_simple(self) -> str:
        """Return a simple command."""
        focused = self._focus.programs and self.random.random() < 0.8
        program = self.random.choice(self._focus.programs if focused else PROGRAMS)
        if program in OTHER_OPTIONS and self._is_wild(0.5, *self._focus.programs):
            return f"{program} {self._abbreviate(self.random.choice(OTHER_OPTIONS[program]))}{self._more_files()}"
        if program in _SPECIAL_WORDS and self.random.random() < 0.7:
            words = self.fill(self.random.choice(_SPECIAL_WORDS[program]))
        else:
            words = " ".join(self._table_words(program))
        if program in shell_readonly._VERSION_OPTIONS and program not in shell_readonly._PROGRAMS:
            words = self.random.choice(shell_readonly._VERSION_OPTIONS[program])
        return f"{program} {words}".rstrip() + self._redirection()

    def fill(self, template: str) -> str:
        """Return a template with files and texts in it."""
        makers: dict[str, Callable[[], str]] = {
            "{file}": self.make_file,
            "{text}": lambda: self.random.choice(_TEXTS),
            "{number}": lambda: self.random.choice(_NUMBERS),
            "{glob}": lambda: self.random.choice(GLOBS),
            "{name}": lambda: self.random.choice(("ls", "cat", "python3", "nothing")),
            "{simple}": self.make_simple,
        }
        for name, make in makers.items():
            while name in template:
                template = template.replace(name, make(), 1)
        return template

    def make_file(self) -> str:
        """Return a word that names a file."""
        if self._is_wild(0.3, "glob"):
            word = self.random.choice(WIDE_GLOBS)
        elif self._is_wild(0.3, *self._focus.programs):
            word = self.random.choice(OUTSIDE)
        else:
            word = self.random.choice(GLOBS if self.random.random() < 0.12 else INSIDE)
        return self._shape_word(word) if self._is_wild(0.4) or self._focus.shapes else word

    def _is_wild(self, chance: float, *shapes: str) -> bool:
        if not {*shapes}.isdisjoint((*self._focus.shapes, *self._focus.programs)):
            return self.random.random() < 0.6
        return self.random.random() < self._wild * chance

    def _table_words(self, program: str) -> list[str]:
        """Return options of a program's table, and files."""
        options = shell_readonly._PROGRAMS.get(program)
        if options is None:
            return [self.make_file() for _ in range(self.random.randrange(3))]
        words = []
        for _ in range(self.random.choices((0, 1, 2), (4, 4, 1))[0]):
            words.append(self._make_option(options))
        if self._is_wild(0.2):
            words.append(self.random.choice(("-Q", "-o", "-f", "--help", "--version", "-L", "--x=y", "-R", "-c", "-0")))
        words += [self._make_pattern() for _ in range(options.leading)]
        if options.takes_files:
            words += [self.make_file() for _ in range(self.random.randrange(1, 3))]
        return words

    def _make_option(self, options: shell_readonly._Options) -> str:
        choices: list[Callable[[], str]] = []
        if options.flags:
            choices += [
                lambda: (
                    "-"
                    + "".join(self.random.sample(options.flags, min(len(options.flags), self.random.choice((1, 1, 2)))))
                )
            ] * 3
        if options.values:
            choices.append(
                lambda: f"-{self.random.choice(options.values)}{self.random.choice(('', ' '))}{self._value()}"
            )
        if options.words:
            choices.append(lambda: f"--{self.random.choice(options.words.split()).rstrip('=')}")
        if options.value_words:
            choices.append(
                lambda: f"--{self.random.choice(options.value_words.split())}{self.random.choice('= ')}{self._value()}"
            )
        word = self.random.choice(choices)() if choices else ""
        # What follows a file for ever only costs time.
        word = (
            ""
            if word.startswith(("--follow", "--retry"))
            or (options is shell_readonly._PROGRAMS["tail"] and "f" in word.lower())
            else word
        )
        return self._abbreviate(word) if self._is_wild(0.3) else word

    def _make_pattern(self) -> str:
        text = self.random.choice(_TEXTS)
        is_shaped = self._focus.shapes and self.random.random() < 0.5
        return self._shape_word(text) if is_shaped else text

    def _value(self) -> str:
        if self._is_wild(0.3, "value"):
            return self.random.choice(("link1", "-f", "-d", "-s", "3", "--", "-o"))
        return self.random.choice((*_NUMBERS, *_NUMBERS, "x", ":", ",", "a", "name", "never", "'%s'"))

    def _abbreviate(self, words: str) -> str:
        head, sign, tail = words.partition("=")
        if words.startswith("--") and self.random.random() < 0.15 and len(head) > 5:
            return head[: self.random.randrange(4, len(head))] + sign + tail
        return words

    def _more_files(self) -> str:
        return "".join(f" {self.random.choice(INSIDE)}" for _ in range(self.random.choice((0, 0, 1, 2))))

    def _redirection(self) -> str:
        if self._focus.programs == EDITORS and self.random.random() < 0.4:
            return self.random.choice(_EDIT_REDIRECTIONS)
        if self._is_wild(0.5, "redirection"):
            return self.random.choice(_WILD_REDIRECTIONS)
        return self.random.choice(_REDIRECTIONS) if self.random.random() < 0.15 else ""

    def _shape_word(self, word: str) -> str:
        if "home" in self._focus.shapes:
            return _add_home(self.random, word)
        name = self.random.choice([shape for shape in self._focus.shapes if shape in WORD_SHAPES] or list(WORD_SHAPES))
        return WORD_SHAPES[name](self.random, word)

    def _shape_command(self, text: str) -> str:
        named = [shape for shape in self._focus.shapes if shape in COMMAND_SHAPES]
        if self._focus.shapes and not named:
            return text
        return COMMAND_SHAPES[self.random.choice(named or list(COMMAND_SHAPES))](self.random, text)


PROGRAMS: Final = (
    *shell_readonly._PROGRAMS, *shell_readonly._SPECIAL_PROGRAMS, "echo", "timeout", "nice", "time",
    *(["cat", "ls", "grep", "head", "find", "sed", "git", "wc", "echo", "cd"] * 4),
    "bash", "python3", "perl",
)  # fmt: skip
_REDIRECTIONS = (
    " > /dev/null",
    " 2>/dev/null",
    " 2>&1",
    " >/dev/null 2>&1",
    " < a",
    " <c.txt",
    " 1>&2",
    " >> /dev/null",
    " 0<b",
)
_WILD_REDIRECTIONS = (
    " > pwned", " >pwned", " >| pwned", " &> pwned", " >& pwned", " <> pwned", " 3> pwned", " > a", " >! b",
        " >! .git/config",
    " >&1x", " >&2pwned", " 2>&1x", " >&1", " < link1", " <link/secret.txt", " << x\none\nx", " <<x\n$(touch pwned)\nx",
    " <<< x", " <(touch pwned)", " > >(touch pwned)", " 3</dev/null -d link1", " 3</dev/null -s link1", " 3>/dev/null",
        " <1-9> /dev/null",
    " <1-9>/dev/null", " <-> /dev/null", " <1-9>/dev/stdout", " > ../pwned", " > d/out/pwned", " >.git/hooks/x",
        " 2> pwned", " >>pwned", " <&0",
    " > $HOME/pwned", " > ~/pwned", " >/dev/tcp/127.0.0.1/9", " </dev/tcp/127.0.0.1/9", " > link1", " > 'un it'",
        " 9<a", " {fd}>pwned",
)  # fmt: skip


def _cut(random: random.Random, word: str) -> tuple[str, str]:
    at = random.randrange(len(word) + 1)
    return word[:at], word[at:]


def _add_brace(random: random.Random, word: str) -> str:
    other = random.choice(OUTSIDE)
    return random.choice((f"{{{word},{other}}}", f"{{{{x}},{other}}}", f"{word}{{,{other}}}", f"{{{other},{word}}}",
        "li{nk1,x}",
                          f"{{-opwned,{word}}}", f"{{-f,{other}}}", "lin{k1..1}", "{link1,}",
                          "{../guarded/secret.txt,a}"))  # fmt: skip


def _add_quotes(random: random.Random, word: str) -> str:
    head, tail = _cut(random, word)
    return random.choice((f"'{head}'{tail}", f'"{head}"{tail}', f"{head}''{tail}", f'{head}"{tail}"',
        f"{head}$'{tail}'", f"{head}\\{tail}",
                          f'{head}$"{tail}"', f"'{word}'", f'"{word}"'))  # fmt: skip


def _join_lines(random: random.Random, word: str) -> str:
    word = random.choice((word, "../guarded/secret.txt", '"../guarded/secret.txt"', "link1", '"link1"'))
    inside = random.randrange(1, max(2, len(word)))
    return word[:inside] + "\\\n" + word[inside:]


def _add_variable(random: random.Random, word: str) -> str:
    return random.choice(
        (f"$HOME/{word}", f"${{HOME}}/{word}", f'"$HOME"/{word}', "$HOMEx-flink1", "$HOMEx-opwned", "$HOMEx",
            "$HOME:h/x", "$HOME_",
         "$HOME_-flink1", '"$HOME_-flink1"', '"$HOMEx-flink1"', "$HOME1-flink1", '"$HOME[PATH=1]"', '"$?[PATH=1]"',
         '"${HOME}[PATH=1]"',
         "$HOME:s,h,%s,:s,s,n,", '"$HOME:t"', "link$?", '"link$?"', "$PWD", "$x", f"${{x:-{word}}}", '"$(cat link1)"',
         "`cat link1`", "$(touch pwned)",
         '"`touch pwned`"', '"$(touch pwned)"', "$((PATH=1))", "$[PATH=1]", '"$((PATH=1))"', "$?", "$-", "$$",
         "$HOME[1]", "$HOME\\[PATH=1]", "$HOME'[PATH=1]'", "${HOME}:h", '"${HOME}:h"', '"$x../guarded/secret.txt"',
         "$x../guarded/secret.txt", "${x}link1", "$HOME/project/$?", '"$\\\n(touch pwned)"', '"$ANTHROPIC_API_KEY"',
         "$ANTHROPIC_API_KEY", "$HOME")
    )  # fmt: skip


def _add_home(random: random.Random, word: str) -> str:
    """Use the home folder plainly: what is special is its name."""
    return random.choice(("$HOME", "${HOME}", '"$HOME"', word, word, word))


def _add_tilde(random: random.Random, word: str) -> str:
    return random.choice(
        (f"~/{word}", "~", "~+/link1", "~+/*", "~-/x", "~root/x", f"x=~/{word}", "x=~/secret.txt", "x=a:~/x",
            f"~/project/{word}", "x\\=~/secret.txt",
         "'x='~/secret.txt", f"{word}:~/x", "~+/l*", "~+/src/l*", "~0/link1", "~+", "~+/link?", "x=~/k*")
    )  # fmt: skip


def _begin_oddly(random: random.Random, word: str) -> str:
    return random.choice(
        (
            f"={word}",
            "=ls",
            "=cat",
            f"@{word}",
            "@options",
            f"^{word}",
            "^a",
            f"%{word}",
            "%1",
            "=evil.sh",
            "@link1",
            "'@link1'",
            "''=ls",
            "''@a",
            "=git",
        )
    )


def _add_glob(random: random.Random, word: str) -> str:
    if random.random() < 0.5 or not word.isalnum():
        return random.choice(WIDE_GLOBS)
    at = random.randrange(len(word))
    return word[:at] + random.choice("*?") + word[at + 1 :]


def _add_sign(random: random.Random, word: str) -> str:
    word = random.choice((word, "a", "b"))
    return word + random.choice(("!", "]", "[", "#", "! x", "] x", "(", ")", "!;", "];"))


def _add_brackets(random: random.Random, word: str) -> str:
    return random.choice(
        (
            "[l]ink1",
            "lin[k]1",
            "[3]",
            "![",
            "[a]*",
            "[l]ink*",
            "!link1",
            "!x",
            "]x",
            "[!x]",
            "link[1]",
            "[",
            "]",
            "[0-9]",
        )
    )


def _add_character(random: random.Random, word: str) -> str:
    character = random.choice("\x00\x01\x07\r\x0b\x1b\x7f\x85\xa0\u200b\u2028\u202e\u3000\ufeff\ud800é😀\uff1b\x84\x9b")
    head, tail = _cut(random, word)
    return random.choice(
        (f"{head}{character}{tail}", f"'{head}{character}{tail}'", f'"{head}{character}{tail}"', f"'{character}'")
    )


def _add_parenthesis(random: random.Random, word: str) -> str:
    return random.choice(
        (
            f"@({word}|link1)",
            "*(e:'touch pwned':)",
            f"!({word})",
            f"({word})",
            "link1(@)",
            "link1(@N)",
            "+(l)ink1",
            "l*(@)",
            "$(cat link1)",
            "<(cat link1)",
        )
    )


def _add_digit(random: random.Random, word: str) -> str:
    target = random.choice(("/dev/null", "a", "b"))
    return random.choice((f"3<{target} {word}", f"-s 3<{target} -s link1 {word}", f"-d 3<{target} -d link1 {word}",
        f"4>/dev/null {word}",
                          f"-e 3<{target} -e link1", f"12<{target} {word}", f"-d 3<{target} -d 3 {word}"))  # fmt: skip


WORD_SHAPES: Final[Mapping[str, Callable[[random.Random, str], str]]] = {
    "brace": _add_brace, "quote": _add_quotes, "join": _join_lines, "variable": _add_variable, "tilde": _add_tilde,
    "begin": _begin_oddly, "glob": _add_glob, "sign": _add_sign, "bracket": _add_brackets, "character": _add_character,
    "parenthesis": _add_parenthesis, "digit": _add_digit,
}  # fmt: skip


def _add_keyword(random: random.Random, text: str) -> str:
    return random.choice((f"if {text}; then touch pwned; fi", f"! {text}", f"for x in {text}; do touch pwned; done",
        f"while {text}; do :; done",
                          f"repeat 2 {text}", f"- {text}", f"noglob {text}", f"coproc {text}",
                          f"case x in x) {text};; esac", f"{text}; do x"))  # fmt: skip


def _add_assignment(random: random.Random, text: str) -> str:
    return random.choice(
        (
            f"PATH=1 {text}",
            f"PATH=1; {text}",
            f"x=1 {text}",
            f"IFS=x {text}",
            f"A=$(touch pwned) {text}",
            f"HOME=.. {text}",
            f"PATH=1\n{text}",
        )
    )


def _add_null_command(random: random.Random, text: str) -> str:
    return random.choice(
        (f"< a; {text}", "< a", f"{text}; <b", f"> /dev/null; {text}", f"{text} && < c.txt", "< a | head -1")
    )


def _add_comment(random: random.Random, text: str) -> str:
    return random.choice(
        (
            f"{text} # x",
            f"# x\n{text}",
            f"#x\\\n{text}",
            f"{text} #'\ntouch pwned",
            f"{text};#x\nls",
            f"{text}#x",
            f"{text} '#x'",
            f"# '\n{text}",
        )
    )


def _add_background(random: random.Random, text: str) -> str:
    return random.choice(
        (f"sleep 2 & {text}", f"{text} & sleep 2", "sleep 2 &", f"{text}& sleep 3", f"sleep 2& {text}")
    )


def _add_group(random: random.Random, text: str) -> str:
    return random.choice(
        (f"({text})", f"{{ {text}; }}", "x() { touch pwned; }; x", f"eval '{text}'", f"{text}; (touch pwned)")
    )


def _add_path_change(random: random.Random, text: str) -> str:
    """Add a command behind which another program would run, if `PATH` was changed before."""
    return f"{text}; {random.choice(('ls', 'cat a'))}"


def _add_exit_code(random: random.Random, text: str) -> str:
    return random.choice(
        (
            f"false; cat link$?; {text}",
            f"{text}; cat link$?",
            'false || cat "link$?"',
            "false; head link$?",
            "false; realpath --relative-to=link$? a",
        )
    )


COMMAND_SHAPES: Final[Mapping[str, Callable[[random.Random, str], str]]] = {
    "keyword": _add_keyword, "assignment": _add_assignment, "null": _add_null_command, "comment": _add_comment,
    "background": _add_background, "group": _add_group, "path": _add_path_change, "exit": _add_exit_code,
}  # fmt: skip
SHAPES: Final = (*WORD_SHAPES, *COMMAND_SHAPES, "operator", "redirection", "value")
