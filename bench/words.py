"""Text that looks like what sessions hold: invented prose, code, shell output, pictures as base64.

Rules
  1. Deterministic: one seed, one text.
  2. Cheap: a text is a slice of a stock made once; a stock holds nothing that was ever said by anyone.
  3. The share of escapes is that of real files: a line end about every 80 bytes, a quote about every 130, some
     tabs, backslashes, terminal colours, and characters outside ASCII in about one line of six.
"""

from __future__ import annotations

import base64
import math
from random import Random

STOCK = 400_000
"""How many characters of each kind of text there are."""
PICTURES = 3_600_000

_ONSETS = (
    "b",
    "br",
    "c",
    "cl",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "t",
    "tr",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_CODAS = ("", "", "", "n", "r", "s", "t", "l", "nd", "st")
_WIDE_WORDS = [
    "naïve",
    "façade",
    "Größe",
    "señal",
    "你好",
    "データ",
    "привет",
    "—",
    "“so”",
    "…",
    "→",
    "✓",
    "🚀",
    "🎉",
    "½",
    "€",
]
_CODE = (
    "def {a}_{b}(self, {c}: str) -> dict[str, int]:",
    "    return self.{a}.{b}({c}, key=\"{d}\")",
    "    if {a} is None or not {b}.{c}:",
    "        raise ValueError(f\"no {a}: {{{b}!r}}\\n\")",
    "    # {a} {b} {c} before the {d} {a}",
    "",
    "const {a} = await {b}.{c}({{ {d}: '{a}', retries: 3 }});",
    "  <{a} className=\"{b}-{c}\" onClick={{() => {d}(true)}}>",
    "\t\t{a}, err := {b}.{c}(ctx, \"{d}\")",
    "\tif err != nil {{",
    "    \"{a}\": {{\"{b}\": \"{c}\", \"path\": \"C:\\\\{d}\\\\{a}\"}},",
    "        self.assertEqual({a}({b}), [\"{c}\", \"{d}\"])",
    "}}",
    "    for {a}, {b} in enumerate({c}.{d}):",
)  # fmt: skip
_SHELL = (
    "src/{a}/{b}.py:{n}:{m}: error: {c} {d} is not {a}",
    "\x1b[32m✓\x1b[39m {a} {b} \x1b[2m({n} ms)\x1b[22m",
    "-rw-r--r--  1 me  staff  {n} Jan {m} 09:{m} {a}_{b}.ts",
    "    at {a}.{b} (/home/me/work/{c}/{d}.js:{n}:{m})",
    "tests/{a}/test_{b}.py::test_{c}_{d} PASSED   [{m}%]",
    '{a}@{m}.{m}.0 {b} "{c}" {d}',
    "commit {n}{n}{n}  {a} {b} {c}",
    "",
)


class Words:
    """Gives texts of any length; holds the stocks they are cut from."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lexicon = [self._invent() for _ in range(3000)]
        self._prose = self._write_prose(self._lexicon)
        self._wide = self._write_prose(self._lexicon + _WIDE_WORDS * 40)
        self._shell = self._write_lines(_SHELL)
        code = self._write_lines(_CODE)
        self._code_lines = code.split("\n")
        self._per_line = len(code) / len(self._code_lines)
        self._base64 = base64.b64encode(random.randbytes(PICTURES * 3 // 4)).decode()

    def word(self) -> str:
        """One word."""
        return self._lexicon[int(self._random.random() * 3000)]

    def name(self) -> str:
        """A name as in code: two words."""
        return f"{self.word()}_{self.word()}"

    def path(self, folder: str) -> str:
        """A source file's path."""
        return f"{folder}/src/{self.word()}/{self.name()}.py"

    def size(self, median: int, spread: float, most: int = 250_000) -> int:
        """A length: half of them below the median, the rest with a long tail."""
        return min(most, int(median * math.exp(spread * self._random.gauss(0.0, 1.0))) + 1)

    def prose(self, length: int) -> str:
        """Sentences."""
        return self._cut(self._wide if self._random.random() < 0.09 else self._prose, length)

    def shell(self, length: int) -> str:
        """What a command prints. Only some of it has colours and ticks."""
        text = self._cut(self._shell, length)
        return text if self._random.random() < 0.12 else text.replace("\x1b", "").replace("✓", "ok")

    def code(self, length: int) -> list[str]:
        """Lines of a source file."""
        lines = max(1, round(length / self._per_line))
        start = int(self._random.random() * max(1, len(self._code_lines) - lines))
        return self._code_lines[start : start + lines]

    def base64(self, length: int) -> str:
        """A picture or a signature."""
        return self._cut(self._base64, length)

    def _cut(self, stock: str, length: int) -> str:
        start = int(self._random.random() * max(1, len(stock) - length))
        return stock[start : start + length]

    def _invent(self) -> str:
        pick = self._random.choice
        return "".join(pick(_ONSETS) + pick(_VOWELS) + pick(_CODAS) for _ in range(pick((1, 2, 2, 3))))

    def _write_prose(self, lexicon: list[str]) -> str:
        words, random = self._random.choices(lexicon, k=STOCK // 6), self._random.random
        sentences, at = [], 0
        while at < len(words):
            length = 4 + int(random() * 14)
            sentence, chance = " ".join(words[at : at + length]), random()
            if chance < 0.25:
                sentence = f"`{words[at]}` {sentence}"
            elif chance < 0.4:
                sentence = f'He said "{words[at]}": {sentence}'
            end = ".\n\n" if chance > 0.8 else ".\n- " if chance > 0.55 else ". "
            sentences.append(sentence.capitalize() + end)
            at += length
        return "".join(sentences)

    def _write_lines(self, patterns: tuple[str, ...]) -> str:
        lines, length = [], 0
        while length < STOCK:
            a, b, c, d = self._random.choices(self._lexicon, k=4)
            n, m = int(self._random.random() * 9999), int(self._random.random() * 60)
            lines.append(self._random.choice(patterns).format(a=a, b=b, c=c, d=d, n=n, m=m))
            length += len(lines[-1]) + 1
        return "\n".join(lines)
