"""Encodes spans and data points as requests of the OpenTelemetry protocol, with its official messages.

Rules
  1. The messages are made directly: the SDK chooses ids and times itself, and history has both already.
  2. The messages are imported here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from unspool.telemetry.mapping import INSTRUMENTS, SCHEMA_URL, Attributes, DataPoint, Distribution, Span, SpanKind

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1 import trace_pb2

SCOPE: Final = "unspool"
_NANOS: Final = 1_000_000
_MAX_MESSAGE: Final = 300


def check_messages() -> None:
    """Raise `MissingExtra` if the messages of the protocol are not installed."""
    try:
        import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401
    except ModuleNotFoundError:
        from unspool.extras import missing_extra  # start-up: only this needs it

        raise missing_extra("otlp", feature="OpenTelemetry") from None


def encode_spans(spans: Iterable[Span], resource: Mapping[str, str]) -> bytes:
    """Return a request that exports spans."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1 import trace_pb2

    scope = trace_pb2.ScopeSpans(scope=_scope(), spans=map(_span, spans), schema_url=SCHEMA_URL)
    of_resource = trace_pb2.ResourceSpans(resource=_resource(resource), scope_spans=[scope], schema_url=SCHEMA_URL)
    return ExportTraceServiceRequest(resource_spans=[of_resource]).SerializeToString()


def encode_points(points: Iterable[DataPoint], resource: Mapping[str, str]) -> bytes:
    """Return a request that exports data points."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    by_metric: dict[str, list[DataPoint]] = {}
    for point in points:
        by_metric.setdefault(point.metric, []).append(point)
    metrics = [_metric(name, group) for name, group in by_metric.items()]
    scope = metrics_pb2.ScopeMetrics(scope=_scope(), metrics=metrics, schema_url=SCHEMA_URL)
    of_resource = metrics_pb2.ResourceMetrics(
        resource=_resource(resource), scope_metrics=[scope], schema_url=SCHEMA_URL
    )
    return ExportMetricsServiceRequest(resource_metrics=[of_resource]).SerializeToString()


def decode_rejection(data: bytes) -> tuple[int, str]:
    """Return how many spans or points a receiver has rejected, and why, from its answer; both answers look alike."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        partial = ExportTraceServiceResponse.FromString(data).partial_success
    except DecodeError:  # some receivers answer in JSON, or with a page
        return 0, ""
    return max(0, partial.rejected_spans), partial.error_message[:_MAX_MESSAGE]


def _span(span: Span) -> trace_pb2.Span:
    from opentelemetry.proto.trace.v1 import trace_pb2

    return trace_pb2.Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        name=span.name,
        kind=trace_pb2.Span.SPAN_KIND_CLIENT if span.kind is SpanKind.CLIENT else trace_pb2.Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start * _NANOS,
        end_time_unix_nano=span.end * _NANOS,
        attributes=_attributes(span.attributes),
        status=trace_pb2.Status(code=trace_pb2.Status.STATUS_CODE_ERROR) if span.is_failed else None,
    )


def _metric(name: str, points: Sequence[DataPoint]) -> Metric:
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    instrument = INSTRUMENTS[name]
    temporality: Any = "AGGREGATION_TEMPORALITY_CUMULATIVE"
    named: dict[str, Any] = {"name": name, "description": instrument.description, "unit": instrument.unit}
    if instrument.boundaries:
        histogram = metrics_pb2.Histogram(
            data_points=[_histogram_point(point, instrument.boundaries) for point in points],
            aggregation_temporality=temporality,
        )
        return metrics_pb2.Metric(histogram=histogram, **named)
    total = metrics_pb2.Sum(
        data_points=map(_number_point, points), aggregation_temporality=temporality, is_monotonic=True
    )
    return metrics_pb2.Metric(sum=total, **named)


def _number_point(point: DataPoint) -> Any:
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    value: Any = {"as_int": point.value} if isinstance(point.value, int) else {"as_double": point.value}
    return metrics_pb2.NumberDataPoint(**_times(point), **value)


def _histogram_point(point: DataPoint, boundaries: Sequence[float]) -> Any:
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    value = point.value
    assert isinstance(value, Distribution)
    return metrics_pb2.HistogramDataPoint(
        count=value.count,
        sum=value.total,
        min=value.least,
        max=value.most,
        bucket_counts=value.buckets,
        explicit_bounds=boundaries,
        **_times(point),
    )


def _times(point: DataPoint) -> dict[str, Any]:
    return {
        "attributes": _attributes(point.attributes),
        "start_time_unix_nano": point.start * _NANOS,
        "time_unix_nano": point.time * _NANOS,
    }


def _scope() -> InstrumentationScope:
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

    # Without a version: with it, every release would begin new series.
    return InstrumentationScope(name=SCOPE)


def _resource(attributes: Mapping[str, str]) -> Resource:
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

    return Resource(attributes=_attributes(dict(attributes)))


def _attributes(attributes: Attributes | dict[str, str]) -> list[KeyValue]:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    return [KeyValue(key=name, value=_value(value)) for name, value in attributes.items()]


def _value(value: object) -> Any:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue

    match value:
        case bool():  # before int: in Python `True` is one
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case tuple():
            return AnyValue(array_value=ArrayValue(values=map(_value, value)))
        case _:
            return AnyValue(string_value=str(value))
