"""Computes what responses cost, in micro-dollars, and finds the session that pays for them.

Every list, report, SQL table and page uses these rules. Apart from `cost.py` and `price_list.py`, and without msgspec
(9 ms): a report of sums that are already in the store needs no more, and the status line computes costs too.

Rules of costs
  1. Sums are exact: whole picodollars (10⁻¹² dollars). They are rounded to micro-dollars once per response, half to
     even.
  2. A request whose prompt (input, cache reads and cache writes) is longer than 200,000 tokens is priced at the
     model's long rates, where it has them: all of it, output too.
  3. `us` and `fast` multiply the price of tokens by the factor in the price list, else by 1; web searches are not
     multiplied.
  4. Without a price the cost is 0 and the response unpriced.

Rules of who pays
  5. The session of a file pays for each response whose counted copy (`responses.py`, rule 6) is in that file. A
     session's file has the session's name, and an agent's file is in the session's folder. The id on the line plays no
     part: files are renamed and copied, and then it names another session.
  6. An agent's file beside the sessions (until 2.0.76) is of the session that the line names. If the line names none,
     the name of the file stands for the session.
  7. Two files may have the name of one session, in two projects: each pays for what is in it and in the files of its
     own agents.
  8. Of a session that has no file, another file with the session's name pays; if there is none either, the session is
     listed with what is left of it, its agents' files. So what all sessions pay is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # start-up: a list of sessions whose costs are in the store needs no responses, and so no msgspec
    from typing import Protocol

    from unspool.prices.responses import Response

    # Here, because making a protocol or a named tuple takes as long as importing a small module.
    class PricedUsage(Protocol):
        """What the cost of a response depends on: a `Response`, or what the status line reads of one."""

        @property
        def input(self) -> int:
            """Tokens that were not cached."""

        @property
        def output(self) -> int:
            """Tokens of the answer."""

        @property
        def cache_read(self) -> int:
            """Tokens read from the cache."""

        @property
        def cache_write_5m(self) -> int:
            """Tokens written to the cache for 5 minutes."""

        @property
        def cache_write_1h(self) -> int:
            """Tokens written to the cache for an hour."""

        @property
        def web_searches(self) -> int:
            """How many web searches were billed."""

        @property
        def final(self) -> bool:
            """Whether the output is a final count."""

        @property
        def size(self) -> int:
            """Approximate bytes of content, if the output is not final."""

        @property
        def speed(self) -> str | None:
            """`fast`, or anything else."""

        @property
        def inference_geo(self) -> str | None:
            """`us`, or anything else."""


SOURCE = "public price list, as republished in litellm 1.77.0, 1.81.0 and 1.108.4, read 2026-11-15"
"""Where the prices are from."""
VERSION = "2026-11-15"
DIGEST = "daafd8e083eb1aea32a8107082a7bc58c3095fd68e91726a66c354faafe63ad6"
"""SHA-256 of `TABLE` in `price_list.py`."""

LONG_PROMPT_TOKENS = 200_000
"""A prompt with more tokens than this is priced at the long rates."""

FACTOR_ONE = 10
"""The multiplier 1: multipliers are in tenths."""

PICOS_PER_MICRO = 1_000_000
"""Picodollars in a micro-dollar."""


class Rates(NamedTuple):
    """Rates by kind of token, in ten-thousandths of a dollar per million."""

    input: int
    output: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int


class Price(NamedTuple):
    """The rates of a model from a day on."""

    # No msgspec here: the status line finds prices too, and importing msgspec takes as long as all else that it does.

    model: str
    rates: Rates
    long: Rates | None = None
    """Rates of a whole request whose prompt is longer than 200,000 tokens; None: the usual ones."""
    us: int = FACTOR_ONE
    fast: int = FACTOR_ONE
    web_search: int = 10_000
    """Micro-dollars for one."""
    since: str = ""
    source: str = SOURCE


def known_cost(cost_micros: int, unpriced_tokens: int) -> int | None:
    """Return a cost as programs see it: None if there is no price for any of what was used."""
    return None if unpriced_tokens and not cost_micros else cost_micros


class Bill(NamedTuple):
    """Sums of what responses used and cost, in the order of the columns of `spent` in the store."""

    responses: int
    estimated_responses: int
    """Those whose output may be a count from the beginning of the stream."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    web_searches: int
    cost_micros: int
    unpriced_tokens: int
    estimated_output_tokens: int
    """Output with an estimate where a response is not final: from the size of its text."""
    estimated_cost_micros: int
    """The cost with the estimated output."""


_FREE = Price(model="", rates=Rates(0, 0, 0, 0, 0), web_search=0)
_USUAL = FACTOR_ONE * FACTOR_ONE


def cost_micros(response: PricedUsage, price: Price | None) -> int:
    """Return the cost of a response in micro-dollars; 0 without a price."""
    return bill_responses((response,), price).cost_micros


def bill_responses(responses: Sequence[PricedUsage], price: Price | None) -> Bill:
    """Return what responses that share a price used and cost. A hot path: it runs for every response of a folder."""
    rates = price or _FREE
    usual = input_rate, output_rate, read_rate, short_rate, long_rate = rates.rates
    above, searched = rates.long, rates.web_search * PICOS_PER_MICRO
    fresh = output = read = short = long = searches = micros = early = missing = missing_micros = 0
    for response in responses:
        inputs, outputs, reads, shorts, longs = (
            response.input, response.output, response.cache_read, response.cache_write_5m, response.cache_write_1h
        )  # fmt: skip
        if above is not None:
            is_long = inputs + reads + shorts + longs > LONG_PROMPT_TOKENS
            input_rate, output_rate, read_rate, short_rate, long_rate = above if is_long else usual
        prompt = inputs * input_rate + reads * read_rate + shorts * short_rate + longs * long_rate
        # Asked inline: a function call for each response would cost more than the bill.
        multiplied = response.inference_geo == "us" or response.speed == "fast"
        factor = price_factor(response, rates) if multiplied else _USUAL
        picos = (prompt + outputs * output_rate) * factor + response.web_searches * searched
        rounded = _rounded(picos)
        micros += rounded
        fresh += inputs
        output += outputs
        read += reads
        short += shorts
        long += longs
        searches += response.web_searches
        if not response.final:
            early += 1
            # 3.6 bytes a token: measured on 311 final responses of Claude Code 2.1.
            more = response.size * 5 // 18 - outputs
            if more > 0:
                missing += more
                missing_micros += _rounded(picos + more * output_rate * factor) - rounded
    unpriced = 0 if price else fresh + output + read + short + long
    return Bill(
        len(responses), early, fresh, output, read, short, long, searches, micros, unpriced, output + missing,
        micros + missing_micros,
    )  # fmt: skip


def price_factor(response: PricedUsage, price: Price) -> int:
    """Return the factor from the price list's units to picodollars per token: both multipliers are in tenths."""
    us = price.us if response.inference_geo == "us" else FACTOR_ONE
    return us * (price.fast if response.speed == "fast" else FACTOR_ONE)


def _rounded(picos: int) -> int:
    """Return micro-dollars, half to even."""
    micros, rest = divmod(picos, PICOS_PER_MICRO)
    return micros + (rest * 2 + micros % 2 > PICOS_PER_MICRO)


ENDING = ".jsonl"
ONLY_AGENTS = "only agents"
"""Why a list leaves out a session: its own file is not there."""


def find_paying_session(response: Response, file: str, session: str | None) -> str:
    """Return the id of the session that pays; `session` is the one that the file belongs to by its place, if any."""
    return session or response.session_id or _stem(file)


def attribute_responses(responses: Iterable[Response], file: str, session: str | None) -> list[Response]:
    """Return the responses of a file with the session that pays in place of the one that their lines name."""
    from msgspec.structs import replace

    attributed = []
    for response in responses:
        if not response.session_id or (session is not None and response.session_id != session):
            response = replace(response, session_id=find_paying_session(response, file, session))
        attributed.append(response)
    return attributed


def _stem(file: str) -> str:
    from unspool.prices.responses import file_stem

    return file_stem(file)


def own_file_path(file: str, session: str) -> str:
    """Return the path that the session's own file has, if there is one, given an agent's file of it.

    >>> own_file_path("/p/s1/subagents/agent-a.jsonl", "s1"), own_file_path("/p/agent-b.jsonl", "s1")
    ('/p/s1.jsonl', '/p/s1.jsonl')
    """
    folder, found, _ = file.rpartition("/subagents/")
    return (folder if found else f"{file.rpartition('/')[0]}/{session}") + ENDING


class SessionFinder:
    """Finds the listed session that an agent's file, or a file that is not listed, belongs to."""

    def __init__(self, listed: Iterable[tuple[str, str]]) -> None:
        """Take the path and id of each listed session, in the order in which files of one session are preferred."""
        self._paths: set[str] = set()
        self._by_id: dict[str, str] = {}
        self._missing: dict[str, tuple[str, set[str]]] = {}
        for path, id in listed:
            self._paths.add(path)
            self._by_id.setdefault(id, path)

    def find(self, file: str, session: str) -> str:
        """Return the path of the session that pays for what is in a file; that of a missing session leads nowhere."""
        if file in self._paths:
            return file
        own = own_file_path(file, session)
        if own in self._paths:
            return own
        if session in self._by_id:
            return self._by_id[session]
        self._missing.setdefault(own, (session, set()))[1].add(file)
        return own

    @property
    def missing(self) -> dict[str, tuple[str, list[str]]]:
        """The sessions without a file among those looked for: id and agents' files, by the path of their own file."""
        return {path: (id, sorted(files)) for path, (id, files) in sorted(self._missing.items())}
