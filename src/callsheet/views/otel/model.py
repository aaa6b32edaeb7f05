"""The telemetry data model: spans with events and links, log records, histograms.

Immutable, and independent of any telemetry library; the exporter is chosen elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

Scalar: TypeAlias = "str | bool | int | float"
Attributes: TypeAlias = "dict[str, Scalar | tuple[str, ...]]"
"""Names and values, in the order in which they are sent; not modified once they are in a span."""


class SpanKind(IntEnum):
    """Whether a span is internal or a request to another service; the numbers are those of OTLP."""

    INTERNAL = 1
    CLIENT = 3


class SpanEvent(NamedTuple):
    """An event within a span; `time` in nanoseconds since 1970."""

    name: str
    time: int
    attributes: Attributes


class Link(NamedTuple):
    """A link from a span to another one, which may be in another trace."""

    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """An operation from `start` to `end`, in nanoseconds since 1970.

    Ids are hexadecimal; `parent_id` is empty for a root. `error` is None if the operation did not fail; its
    text is empty if content is not exported. `dropped_events` counts the events over the limit.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: SpanKind
    start: int
    end: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    links: tuple[Link, ...] = ()
    error: str | None = None
    dropped_events: int = 0


class LogRecord(NamedTuple):
    """A log record that belongs to a span; `time` in nanoseconds since 1970."""

    trace_id: str
    span_id: str
    name: str
    time: int
    attributes: Attributes


class Histogram(NamedTuple):
    """The cumulative histogram of a metric for one set of attributes, in a run up to `time`.

    `counts` has one entry more than `bounds`, for the values above the last bound. Times are nanoseconds
    since 1970.
    """

    name: str
    unit: str
    description: str
    attributes: Attributes
    start: int
    time: int
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
    least: float
    most: float


class Telemetry(NamedTuple):
    """The telemetry to be exported; false if there is none."""

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    metrics: tuple[Histogram, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spans or self.logs or self.metrics)


CONVENTIONS = "1.41.0"
"""The version of OpenTelemetry's semantic conventions."""
SCHEMA_URL = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
SCOPE = "callsheet"


class Op(StrEnum):
    """The values of `gen_ai.operation.name`, which are also the first word of span names."""

    WORKFLOW = "invoke_workflow"
    PLAN = "plan"
    """From semantic-conventions-genai 0.1.0."""
    CHAT = "chat"
    TOOL = "execute_tool"
    AGENT = "invoke_agent"


class Gen(StrEnum):
    """Attributes of the GenAI conventions."""

    OPERATION = "gen_ai.operation.name"
    WORKFLOW = "gen_ai.workflow.name"
    AGENT = "gen_ai.agent.name"
    PROVIDER = "gen_ai.provider.name"
    REQUEST_MODEL = "gen_ai.request.model"
    RESPONSE_MODEL = "gen_ai.response.model"
    TEMPERATURE = "gen_ai.request.temperature"
    MAX_TOKENS = "gen_ai.request.max_tokens"
    SEED = "gen_ai.request.seed"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    TOKEN_TYPE = "gen_ai.token.type"
    TOOL = "gen_ai.tool.name"
    TOOL_TYPE = "gen_ai.tool.type"
    CALL_ID = "gen_ai.tool.call.id"
    ARGUMENTS = "gen_ai.tool.call.arguments"
    RESULT = "gen_ai.tool.call.result"
    EVALUATION = "gen_ai.evaluation.name"
    SCORE = "gen_ai.evaluation.score.value"
    SCORE_LABEL = "gen_ai.evaluation.score.label"
    EXPLANATION = "gen_ai.evaluation.explanation"


class Rpc(StrEnum):
    """Attributes of the MCP conventions and of general ones."""

    METHOD = "mcp.method.name"
    PROTOCOL = "mcp.protocol.version"
    TRANSPORT = "network.transport"
    ERROR = "error.type"
    SERVICE = "service.name"
    SERVICE_VERSION = "service.version"
    INSTANCE = "service.instance.id"


class CallsheetKey(StrEnum):
    """Attributes of callsheet."""

    RUN = "callsheet.run.id"
    RUN_STATUS = "callsheet.run.status"
    RUN_OUTCOME = "callsheet.run.outcome"
    FAILED_STEPS = "callsheet.run.failed_steps"
    PLAN = "callsheet.plan.id"
    PLAN_HASH = "callsheet.plan.hash"
    PLAN_VERSION = "callsheet.plan.version"
    SEGMENT = "callsheet.segment"
    SEGMENT_STATUS = "callsheet.segment.status"
    STEP = "callsheet.step.id"
    VISIT = "callsheet.step.visit"
    STEP_STATUS = "callsheet.step.status"
    OUTPUT = "callsheet.step.output_var"
    DEPENDS_ON = "callsheet.step.depends_on"
    CAST_FAILED = "callsheet.step.cast_failed"
    ATTEMPT = "callsheet.attempt"
    ITEM = "callsheet.foreach.index"
    ITEMS = "callsheet.foreach.count"
    ITEMS_FAILED = "callsheet.foreach.failed"
    TURN = "callsheet.agent.turn"
    PROMPT = "callsheet.model.prompt"
    REQUESTS = "callsheet.model.requests"
    COST = "callsheet.model.cost"
    SERVER = "callsheet.mcp.server"
    FACT = "callsheet.fact.id"
    CONFIDENCE = "callsheet.confidence.effective"
    EXPRESSION = "callsheet.condition.expr"
    HOLDS = "callsheet.condition.result"
    FROM = "callsheet.goto.from"
    TO = "callsheet.goto.to"
    REASON = "callsheet.goto.reason"
    LINK = "callsheet.link.type"
    LINK_VARIABLES = "callsheet.link.variables"


class EventName(StrEnum):
    """The names of span events and log records."""

    CONDITION = "callsheet.condition"
    GOTO = "callsheet.goto"
    REPLANNED = "callsheet.replanned"
    ASKED = "callsheet.asked"
    ANSWERED = "callsheet.answered"
    IN_DOUBT = "callsheet.in_doubt"
    UNUSED = "callsheet.unused"
    """The result of a call came too late and was not used."""
    EVALUATION = "gen_ai.evaluation.result"


class OpenInference(StrEnum):
    """Attributes of OpenInference."""

    KIND = "openinference.span.kind"
    SESSION = "session.id"
    INPUT = "input.value"
    INPUT_TYPE = "input.mime_type"
    OUTPUT = "output.value"
    OUTPUT_TYPE = "output.mime_type"
    NODE = "graph.node.id"
    NODE_NAME = "graph.node.name"
    NODE_PARENT = "graph.node.parent_id"
    TOOL = "tool.name"
    AGENT = "agent.name"
    MODEL = "llm.model_name"
    PROVIDER = "llm.provider"
    PROMPT_TOKENS = "llm.token_count.prompt"
    COMPLETION_TOKENS = "llm.token_count.completion"
    TOTAL_TOKENS = "llm.token_count.total"


class Kind(StrEnum):
    """The values of `openinference.span.kind` that are used."""

    CHAIN = "CHAIN"
    LLM = "LLM"
    TOOL = "TOOL"
    AGENT = "AGENT"


class LinkType(StrEnum):
    """The values of `callsheet.link.type`."""

    DEPENDS_ON = "depends_on"
    RESUMED_FROM = "resumed_from"
    FORKED_FROM = "forked_from"


class ErrorType(StrEnum):
    """The values of `error.type`, of low cardinality."""

    TOOL = "tool_error"
    MODEL = "model_error"
    AGENT = "agent_error"
    PLANNER = "planner_error"
    STEP = "step_failed"
    DENIED = "denied"
    IN_DOUBT = "in_doubt"
    INTERRUPTED = "interrupted"
    BUDGET = "budget_exceeded"
    POLICY = "policy_refused"
    CANCELLED = "cancelled"


class Measure(NamedTuple):
    """A histogram metric: its name, unit, description and bucket bounds."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]


_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(float(4**n) for n in range(14))

TOKEN_USAGE = Measure(
    "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.", _TOKENS
)
MODEL_DURATION = Measure("gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS)
TOOL_DURATION = Measure("gen_ai.execute_tool.duration", "s", "Duration of a tool's execution.", _SECONDS)
AGENT_DURATION = Measure("gen_ai.invoke_agent.duration", "s", "Duration of an agent's invocation.", _SECONDS)
WORKFLOW_DURATION = Measure("gen_ai.invoke_workflow.duration", "s", "Duration of a workflow.", _SECONDS)
MEASURES = (TOKEN_USAGE, MODEL_DURATION, TOOL_DURATION, AGENT_DURATION, WORKFLOW_DURATION)

PROVIDERS = MappingProxyType(
    {
        "openai": "openai",
        "openai-chat": "openai",
        "openai-responses": "openai",
        "anthropic": "anthropic",
        "google": "gcp.gemini",
        "google-gla": "gcp.gemini",
        "google-vertex": "gcp.vertex_ai",
        "bedrock": "aws.bedrock",
        "azure": "azure.ai.openai",
        "cohere": "cohere",
        "deepseek": "deepseek",
        "groq": "groq",
        "mistral": "mistral_ai",
        "grok": "x_ai",
        "xai": "x_ai",
    }
)
"""The conventions' names of model providers, by callsheet's names; other names are used unchanged."""
