"""An OpenTelemetry collector that keeps what it is sent."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.servers import LocalServer


class Collector(LocalServer):
    """What an OpenTelemetry collector is sent over HTTP, decoded by OpenTelemetry's own messages."""

    def __init__(self):
        self.spans, self.metrics, self.resources, self.takes = [], {}, [], True
        super().__init__(_Receives)


class _Receives(BaseHTTPRequestHandler):
    def do_POST(self):
        content = self.rfile.read(int(self.headers["content-length"]))
        if self.server.takes:
            {"/v1/traces": self.spans, "/v1/metrics": self.metrics}[self.path](content)
        self.send_response(200 if self.server.takes else 400)
        self.end_headers()

    def spans(self, content):
        for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            self.server.resources.append(named(resource.resource.attributes))
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def metrics(self, content):
        for resource in ExportMetricsServiceRequest.FromString(content).resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.gauge.data_points:
                    labels = frozenset(named(point.attributes).items())
                    value = point.as_double if point.HasField("as_double") else point.as_int
                    self.server.metrics[metric.name, labels] = value

    def log_message(self, *_):
        """Nothing is printed."""


def named(attributes):
    """Attributes as a mapping; each value is whichever of its forms is set."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
