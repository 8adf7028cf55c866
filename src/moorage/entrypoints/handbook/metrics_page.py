"""Names of metrics: `/metrics` for the operator, and a container's charts."""

from moorage.entrypoints.handbook.words import code, table
from moorage.entrypoints.metric_list import METRICS
from moorage.telemetry.metrics.names import CONTAINER_SERIES


def page() -> str:
    rows = [
        (code(one.name), one.kind, ", ".join(code(label) for label in one.labels), one.help)
        for one in METRICS
    ]
    series = [(code(name), meaning) for name, meaning in CONTAINER_SERIES.items()]
    return f"""# Metrics

## Of the installation

`GET /metrics` answers in Prometheus' text format, with the operator's key as Bearer token. Values of the API's own requests are of
the process that answers. A Grafana dashboard is in `deploy/grafana`.

{table(("name", "kind", "labels", "meaning"), rows)}
## Of a container

`GET /api/v1/containers/{{id}}/metrics` answers series of one value for each step; a step that is not known yet is `null`. The
console draws them under *Metrics*.

{table(("series", "meaning"), series)}"""
