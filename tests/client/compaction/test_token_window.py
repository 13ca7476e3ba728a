"""How full the window is: what is predicted, what is learnt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.client.talks import body, user
from unspool.client.compaction.token_window import DEFAULT_WINDOW, MessageSizes, TokenWindow, parse_too_long
from unspool.prices.token_estimate import estimate_request_tokens


def test_the_window_is_a_persons_own_or_the_models_or_a_guess() -> None:
    assert TokenWindow("claude-opus-4-5", 8000).size == 8000
    assert TokenWindow("claude-sonnet-4-5[1m]").size == 1_000_000
    assert TokenWindow("some-model").size == DEFAULT_WINDOW


@given(st.integers(1000, 1_000_000), st.integers(0, 1_000_000), st.integers(1, 64_000))
def test_a_request_and_its_answer_fit_the_window_together(window: int, tokens: int, wanted: int) -> None:
    gauge = TokenWindow(None, window)
    assert 0 < gauge.threshold < window
    if not gauge.must_shorten(tokens):
        answer = gauge.answer_tokens(tokens, wanted)
        assert tokens + answer <= window
        assert answer >= min(wanted, window // 8, 20_000)


@given(st.floats(0.5, 4), st.lists(st.integers(1, 5000), min_size=1, max_size=8))
def test_what_was_counted_corrects_what_is_estimated(ratio: float, lengths: list[int]) -> None:
    gauge = TokenWindow(None, 100_000)
    talk = [user("Hi. " * 500)]
    gauge.tokens(body(talk))
    for length in lengths:
        gauge.learn_usage(
            {"input_tokens": 3, "cache_read_input_tokens": round(estimate_request_tokens(body(talk)) * ratio) - 3}
        )
        talk.append(user("x" * length))
        true = estimate_request_tokens(body(talk)) * ratio
        assert gauge.tokens(body(talk)) >= true * 0.99 - 10
        assert gauge.tokens(body(talk)) <= max(true, estimate_request_tokens(body(talk))) * 1.01 + 10


def test_words_that_are_denser_than_all_before_are_noticed() -> None:
    gauge = TokenWindow(None, 100_000)
    plain, dense = "word " * 2000, "f3a9" * 700
    gauge.tokens(body([user(plain)]))
    gauge.learn_usage({"input_tokens": 2000})
    gauge.tokens(body([user(plain), user(dense)]))
    gauge.learn_usage({"input_tokens": 4000})
    before = estimate_request_tokens(body([user(plain), user(dense)]))
    after = estimate_request_tokens(body([user(plain), user(dense), user(dense)]))
    assert gauge.predict(after) >= 4000 + (after - before) * 2


def test_a_server_that_counts_next_to_nothing_is_not_believed() -> None:
    gauge = TokenWindow(None, 100_000)
    talk = body([user("x" * 35_000)])
    gauge.tokens(talk)
    gauge.learn_usage({"input_tokens": 1})
    assert gauge.tokens(talk) >= 5000


def test_refusals_are_known_by_their_words() -> None:
    cases = {
        "the API says 400: prompt is too long: 214,309 tokens > 200000 maximum": (214309, 200000),
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease": (190000, 200000),
        "This model's maximum context length is 8192 tokens. However, you requested 9,120 tokens": (9120, 8192),
        "the request exceeds the available context size (4096 tokens), try increasing it": (None, 4096),
        "prompt is too long": (None, None),
    }
    assert {words: parse_too_long(words, 400) for words in cases} == cases
    assert parse_too_long("anything", 413) == (None, None)
    assert parse_too_long("prompt is too long: 9 tokens > 8 maximum", 529) is None
    assert parse_too_long("max_tokens: must be at least 1", 400) is None


def test_a_refusal_teaches_the_window_and_the_size() -> None:
    gauge = TokenWindow("some-model")
    large = body([user("x" * 35_000)])
    gauge.tokens(large)
    assert gauge.learn_refusal("prompt is too long: 12000 tokens > 8000 maximum", 400)
    assert (gauge.size, gauge.tokens(large)) == (8000, 12_000)
    assert not gauge.learn_refusal("overloaded", 529)


def test_a_refusal_never_widens_a_persons_own_window() -> None:
    gauge = TokenWindow(None, 8000)
    assert gauge.learn_refusal("prompt is too long: 210000 tokens > 200000 maximum", 400)
    assert gauge.size == 8000


@given(st.integers(100, 200_000), st.sampled_from(["prompt is too long", "context length exceeded"]))
def test_every_refusal_makes_the_same_request_too_large(length: int, words: str) -> None:
    gauge = TokenWindow(None, 100_000)
    asked = body([user("x" * length)])
    gauge.tokens(asked)
    gauge.learn_refusal(words, 400)
    assert gauge.must_shorten(gauge.tokens(asked))


@given(st.integers(0, 5000), st.integers(0, 9000), st.floats(0.5, 3))
def test_what_is_allowed_is_as_much_as_fits(length: int, tokens: int, ratio: float) -> None:
    gauge = TokenWindow(None, 8000)
    asked = body([user("x" * length)], system="y" * 1000)
    gauge.tokens(asked)
    gauge.learn_usage({"input_tokens": max(1, round(estimate_request_tokens(asked) * ratio))})
    scales = MessageSizes(gauge, asked)
    allowed = scales.allowance(tokens)
    assert allowed == 0 or gauge.predict(scales.overhead + allowed) <= tokens
    assert gauge.predict(scales.overhead + allowed + 1) > tokens
