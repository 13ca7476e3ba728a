"""A receiver of OpenTelemetry on this machine, made of the official messages: it keeps what it is sent, by its ids."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

Json = dict[str, Any]


class Prepared(NamedTuple):
    """An answer that is given in place of the usual one."""

    status: int
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    keeps: bool = False
    """Whether the receiver keeps what it was sent all the same, as if its answer were lost."""


class Posted(NamedTuple):
    """A request."""

    path: str
    headers: dict[str, str]
    size: int


class Received:
    """What a receiver has."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.prepared: list[Prepared] = []
        self.posted: list[Posted] = []
        self.spans: dict[tuple[bytes, bytes], Json] = {}
        self.points: dict[tuple[str, tuple[tuple[str, Any], ...], int], Json] = {}
        self.resources: list[Json] = []
        self.raw = b""
        self.changed = Event()
        self.lock = Lock()

    def of(self, operation: str | None) -> list[Json]:
        """Return the spans of an operation; without one the roots."""
        return [span for span in self.spans.values() if span["attributes"].get("gen_ai.operation.name") == operation]

    def figures(self) -> Counter[str]:
        """Add up the requests of all spans, under the names that `usage` has."""
        sums: Counter[str] = Counter()
        for span in self.of("chat"):
            found = span["attributes"]
            if "gen_ai.usage.input_tokens" not in found:
                continue
            short, long = (found[f"unspool.usage.cache_creation_{age}.input_tokens"] for age in ("5m", "1h"))
            read, writes = (found[f"gen_ai.usage.cache_{kind}.input_tokens"] for kind in ("read", "creation"))
            assert writes == short + long
            sums["input_tokens"] += found["gen_ai.usage.input_tokens"] - read - writes
            sums["output_tokens"] += found["gen_ai.usage.output_tokens"]
            sums["cache_read_tokens"] += read
            sums["cache_write_5m_tokens"] += short
            sums["cache_write_1h_tokens"] += long
            sums["web_searches"] += found["unspool.usage.web_searches"]
            sums["cost_micros"] += round(found.get("unspool.cost", 0) * 1_000_000)
            sums["unpriced_tokens"] += found.get("unspool.unpriced_tokens", 0)
            sums["responses"] += 1
        return sums

    def newest(self) -> dict[tuple[str, tuple[tuple[str, Any], ...]], Json]:
        """Return the last point of each series."""
        found: dict[tuple[str, tuple[tuple[str, Any], ...]], Json] = {}
        for (metric, attributes, _), point in sorted(self.points.items(), key=lambda item: item[0][2]):
            found[metric, attributes] = point
        return found

    def total(self, metric: str, **attributes: str) -> float:
        """Add up the last points of the series of a metric that have some attributes; `__` stands for a point."""
        wanted = {(name.replace("__", "."), value) for name, value in attributes.items()}
        found = (point for (name, labels), point in self.newest().items() if name == metric and wanted <= set(labels))
        return float(sum(point["value"] for point in found))

    def metric_figures(self) -> Counter[str]:
        """Add up the metrics, under the names that `usage` has."""
        kinds = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
        sums = {f"{kind}_tokens": self.total("unspool.tokens", unspool__token__type=kind) for kind in kinds}
        sums["cost_micros"] = round(self.total("unspool.cost") * 1_000_000)
        sums |= {name: self.total(f"unspool.{name}") for name in ("web_searches", "unpriced_tokens", "responses")}
        return Counter({name: int(value) for name, value in sums.items()})

    def take(self, path: str, body: bytes) -> None:
        """Keep what a request has."""
        self.raw += body
        if path.endswith("/v1/traces"):
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(_attributes(group.resource.attributes))
                for scope in group.scope_spans:
                    for span in scope.spans:
                        self.spans[span.trace_id, span.span_id] = {
                            "trace": span.trace_id, "id": span.span_id, "parent": span.parent_span_id,
                            "name": span.name, "kind": span.kind, "start": span.start_time_unix_nano,
                            "end": span.end_time_unix_nano, "status": span.status.code,
                            "attributes": _attributes(span.attributes),
                        }  # fmt: skip
            return
        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for of_scope in of_resource.scope_metrics:
                for metric in of_scope.metrics:
                    data = metric.sum if metric.HasField("sum") else metric.histogram
                    assert data.aggregation_temporality == 2
                    for point in data.data_points:
                        self._take_point(metric.name, point)

    def _take_point(self, name: str, point: Any) -> None:
        labels = tuple(sorted(_attributes(point.attributes).items()))
        kept = {"start": point.start_time_unix_nano}
        if hasattr(point, "bucket_counts"):
            assert sum(point.bucket_counts) == point.count
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
            kept |= {"value": point.sum, "count": point.count}
        else:
            kept["value"] = getattr(point, point.WhichOneof("value"))
        self.points[name, labels, point.time_unix_nano] = kept


@contextmanager
def receiving() -> Iterator[Received]:
    """Run a receiver on a port that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            size = len(body)
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            with received.lock:
                headers = {name.lower(): value for name, value in self.headers.items()}
                received.posted.append(Posted(self.path, headers, size))
                answer = received.prepared.pop(0) if received.prepared else Prepared(200, keeps=True)
                if answer.keeps:
                    received.take(self.path, body)
            self.send_response(answer.status)
            for name, value in {"content-length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)
            received.changed.set()

        def log_message(self, format: str, *values: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Received(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def rejection(count: int, words: str) -> Prepared:
    """Return the answer of a receiver that took a request and rejected some of it."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = count
    answer.partial_success.error_message = words
    return Prepared(200, body=answer.SerializeToString(), keeps=True)


def _attributes(found: Any) -> Json:
    return {one.key: _value(one.value) for one in found}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(one) for one in value.array_value.values)
    return getattr(value, kind)
