"""The names of attributes are those of the official packages of the conventions."""

from __future__ import annotations

from types import ModuleType

import openinference.semconv.trace as openinference
from opentelemetry.semconv._incubating import attributes
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    gen_ai_attributes,
    mcp_attributes,
    network_attributes,
    service_attributes,
)
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.schemas import Schemas

from callsheet.views.otel import model

assert attributes
NEWER = {model.Op.PLAN}
"""Of semantic-conventions-genai 0.1.0, which has no package."""
METRICS_ELSEWHERE = {
    "gen_ai.execute_tool.duration",
    "gen_ai.invoke_agent.duration",
    "gen_ai.invoke_workflow.duration",
}
"""As OpenTelemetry's own instrumentations emit them; their metrics module does not have them yet."""


def texts(*modules: ModuleType) -> set[str]:
    return {value for module in modules for value in vars(module).values() if isinstance(value, str)}


def test_no_foreign_namespace_is_extended() -> None:
    known = texts(gen_ai_attributes, mcp_attributes, network_attributes, error_attributes, service_attributes)
    assert set(map(str, model.Gen)) <= known
    assert set(map(str, model.Rpc)) <= known
    assert all(str(name).startswith("callsheet.") for name in model.CallsheetKey)
    ours = {str(name) for name in model.EventName if str(name).startswith("callsheet.")}
    assert {str(name) for name in model.EventName} - ours == {"gen_ai.evaluation.result"}


def test_operations_and_providers_follow_conventions() -> None:
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    assert {str(op) for op in model.Op} - {str(op) for op in NEWER} <= operations
    assert set(model.PROVIDERS.values()) <= {v.value for v in gen_ai_attributes.GenAiProviderNameValues}


def test_openinference_names_exist() -> None:
    known = {v for v in vars(openinference.SpanAttributes).values() if isinstance(v, str)}
    assert {str(name) for name in model.OpenInference} <= known
    assert {str(kind) for kind in model.Kind} <= {v.value for v in openinference.OpenInferenceSpanKindValues}


def test_metrics_and_schema_follow_conventions() -> None:
    known = texts(gen_ai_metrics) | METRICS_ELSEWHERE
    assert {measure.name for measure in model.MEASURES} <= known
    assert model.SCHEMA_URL in {schema.value for schema in Schemas}
    for measure in model.MEASURES:
        assert list(measure.bounds) == sorted(set(measure.bounds))
