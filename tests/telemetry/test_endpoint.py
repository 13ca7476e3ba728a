"""Where telemetry is sent, and that nobody sees the keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import UsageError
from unspool.telemetry import read_endpoint
from unspool.telemetry.endpoint import METRICS, TRACES

KEY = "s3cret-of-the-team"


def test_the_option_goes_before_the_environment() -> None:
    endpoint = read_endpoint("https://one.example/otlp/", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://two.example"})
    assert endpoint.urls == ("https://one.example/otlp/v1/traces", "https://one.example/otlp/v1/metrics")


def test_an_address_of_one_signal_is_used_as_it_is() -> None:
    endpoint = read_endpoint(
        "",
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://localhost:9090/api/v1/otlp/v1/metrics",
        },
    )
    assert endpoint.urls == ("http://localhost:4318/v1/traces", "http://localhost:9090/api/v1/otlp/v1/metrics")


def test_the_address_of_a_signal_is_taken_for_that_of_the_receiver() -> None:
    assert read_endpoint("http://h:1/v1/traces", {}).urls == ("http://h:1/v1/traces", "http://h:1/v1/metrics")


def test_without_an_address_the_error_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match="no address to send telemetry to"):
        read_endpoint("", {})


@pytest.mark.parametrize(
    "url",
    ["localhost:4318", "ftp://h", "http://", "http://h:99999999", "http://h:x", "http://a b", "http://h\n/", "[", "5e"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--otlp is not a URL"):
        read_endpoint(url, {})


@pytest.mark.parametrize("url", [f"http://me:{KEY}@h", f"http://h/?key={KEY}", f"http://h/#{KEY}"])
def test_an_address_with_a_key_is_refused_without_repeating_it(url: str) -> None:
    for option, environment in ((url, {}), ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": url})):
        with pytest.raises(UsageError, match="has a user name, password or query") as error:
            read_endpoint(option, environment)
        assert KEY not in f"{error.value.message} {error.value.hint}"


def test_headers_are_those_of_the_environment_and_of_the_signal() -> None:
    endpoint = read_endpoint(
        "http://h",
        {
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{KEY}, x-team = a,content-type=text/plain",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-team=b",
        },
    )
    assert endpoint.signal_headers(TRACES) == {"authorization": f"Bearer {KEY}", "x-team": "a"}
    assert endpoint.signal_headers(METRICS) == {"authorization": f"Bearer {KEY}", "x-team": "b"}


def test_no_text_of_an_endpoint_has_a_header() -> None:
    endpoint = read_endpoint("http://h", {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {KEY}"})
    assert KEY not in f"{endpoint!r} {endpoint} {endpoint.identity} {endpoint.__rich_repr__()}"
    assert endpoint.hide_secrets(f"no such key: {KEY}; Bearer {KEY}") == "no such key: (hidden); (hidden)"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_headers_that_are_none_are_an_error_that_does_not_repeat_them(words: str) -> None:
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": f"{KEY}{words}"}
    said = ""
    try:
        headers = read_endpoint("http://h", environment).signal_headers(TRACES)
    except UsageError as error:
        headers, said = {}, f"{error.message} {error.hint}"
    assert KEY not in said
    assert all(name.isascii() and value.isprintable() for name, value in headers.items())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
    ],
)
def test_a_setting_that_cannot_be_followed_is_an_error(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        read_endpoint("http://h", {name: value})


def test_a_signal_can_be_left_out() -> None:
    assert read_endpoint("http://h", {"OTEL_METRICS_EXPORTER": "none"}).signals == (TRACES,)
    with pytest.raises(UsageError, match="neither traces nor metrics"):
        read_endpoint("http://h", {"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "none"})


def test_the_resource_is_that_of_the_environment() -> None:
    assert dict(read_endpoint("http://h", {}).resource) == {"service.name": "unspool"}
    environment = {"OTEL_SERVICE_NAME": "agents", "OTEL_RESOURCE_ATTRIBUTES": "team=a%20b,service.name=no,broken"}
    assert dict(read_endpoint("http://h", environment).resource) == {"service.name": "agents", "team": "a b"}
