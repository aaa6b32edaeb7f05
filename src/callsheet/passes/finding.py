"""The input and output of a pass: `Subject` (a plan with its context) and `Finding`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from callsheet.diagnostics import Diagnostic, Severity, Span, WordFix, did_you_mean
from callsheet.ir import JSON, Call, Effect, Plan, Step
from callsheet.ir.flow import Flow, Place, Use, uses_of
from callsheet.lazy import dataclass

LiteralCheck: TypeAlias = "Callable[[str, JSON], str | None]"
"""Checks a literal argument, given its name and value; returns what is wrong with it, or None."""


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """What the checks need to know about a tool.

    `parameters` are the names that positional arguments fill, in order; `schema` is the JSON schema of
    the arguments' object. `check_literal` validates literal arguments beyond what a schema can express
    (whether a query parses, say). `gives_list` means that every result is a list; `result` is the JSON schema
    that the tool declares for its results, None without one.
    """

    parameters: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    effect: Effect = Effect.UNSAFE
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    check_literal: LiteralCheck | None = None
    gives_list: bool = False
    result: Mapping[str, Any] | None = None

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[str, Any],
        effect: Effect = Effect.UNSAFE,
        check_literal: LiteralCheck | None = None,
        *,
        gives_list: bool = False,
        result: Mapping[str, Any] | None = None,
    ) -> ToolSignature:
        """The signature declared by a JSON schema of the arguments; malformed parts are ignored.

        >>> ToolSignature.from_schema({"properties": {"url": {}}, "required": ["url"]}).parameters
        ('url',)
        """
        required: Any = schema.get("required")
        names = cast("list[Any]", required) if isinstance(required, list) else []
        return cls(
            parameters=tuple(_properties(schema)),
            required=frozenset(name for name in names if isinstance(name, str)),
            effect=effect,
            schema=schema,
            check_literal=check_literal,
            gives_list=gives_list,
            result=result,
        )

    def schema_of(self, name: str) -> Mapping[str, Any]:
        """The JSON schema of one argument; the empty schema, which accepts anything, if none is declared.

        An undeclared argument has the schema `additionalProperties`, unless a pattern may declare it.
        """
        schema: Any = _properties(self.schema).get(name)
        if schema is None and "patternProperties" not in self.schema:
            schema = self.schema.get("additionalProperties")
        return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}

    @property
    def is_open(self) -> bool | None:
        """Whether undeclared arguments are accepted; None if the schema does not say.

        `patternProperties` may accept any of them: patterns are not evaluated.
        """
        if "patternProperties" in self.schema:
            return True
        more = self.schema.get("additionalProperties")
        if more is None:
            return None if self.parameters else True
        return more is not False


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    declared: Any = schema.get("properties")
    return cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Operation:
    """The named arguments of a model or agent operation, and whether it needs input data.

    A missing `required` argument is an error, a missing `expected` one a warning.
    """

    names: tuple[str, ...]
    needs_data: bool = True
    required: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


OPERATIONS: Mapping[str, Operation] = {
    "LLM_EXTRACT": Operation(("target",), expected=("target",)),
    "LLM_CLASSIFY": Operation(("categories",), required=("categories",)),
    "LLM_SUMMARIZE": Operation(("format",)),
    "LLM_ANALYZE": Operation(("task",), expected=("task",)),
    "LLM_EVALUATE": Operation(("condition",), needs_data=False, expected=("condition",)),
    "LLM_GENERATE": Operation(("context", "format"), needs_data=False),
    "LLM_TRANSLATE": Operation(("target_lang",), expected=("target_lang",)),
    "AGENT_CRITIQUE": Operation(("criteria", "rounds"), expected=("criteria",)),
    "CONSENSUS": Operation(("topic", "rounds")),
    "SELF_REFINE": Operation(("goal", "rounds")),
    "AGENT_SOLVE": Operation(
        ("goal", "agent", "max_turns", "tools", "max_calls", "max_tokens", "max_cost", "parallel"),
        needs_data=False,
        expected=("goal",),
    ),
}
"""The operations and their arguments, as in the language reference.

Each also takes any number of positional inputs and `context`. Other named arguments are passed on to
the model as they are.
"""


_MOST_SUGGESTIONS = 20


class Suggestion(NamedTuple):
    """A "did you mean" text, and the replacement it proposes."""

    words: str
    swap: WordFix


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a step (by number), or with the plan as a whole (`step` is None).

    `names` are the subjects of the message (a variable, a target, step ids), for front ends that use
    their own wording; `place` is the part of the step that reads the variable.
    """

    code: str
    severity: Severity
    message: str
    step: int | None = None
    span: Span | None = None
    help: str | Suggestion | None = None
    names: tuple[str, ...] = ()
    place: Place | None = None

    @property
    def hint(self) -> str | None:
        """The help as text."""
        return self.help.words if isinstance(self.help, Suggestion) else self.help

    def diagnostic(self, plan: Plan) -> Diagnostic:
        """The finding as a diagnostic, with the id and the span of its step."""
        step = plan.steps[self.step] if self.step is not None else None
        span = self.span or (step.id_span or step.span if step is not None else None)
        return Diagnostic(
            self.code,
            self.severity,
            self.message,
            span,
            self.hint,
            step=step.id if step is not None else None,
            swap=self.help.swap if isinstance(self.help, Suggestion) else None,
        )


class Suggest(Protocol):
    """Makes a "did you mean" about a word out of known ones; None without a near one."""

    def __call__(self, word: str, known: Iterable[str], mark: str = "") -> Suggestion | None:
        """The suggestion, with `mark` before each name."""
        ...


class Advisor:
    """Makes suggestions, a bounded number of them, since each is a comparison with all known names."""

    def __init__(self) -> None:
        self._made = 0

    def suggest(self, word: str, known: Iterable[str], mark: str = "") -> Suggestion | None:
        """A "did you mean" with `mark` before each name; None if nothing is near, or after many of them."""
        self._made += 1
        if self._made > _MOST_SUGGESTIONS:
            return None
        suggestions = did_you_mean(word, known)
        if not suggestions:
            return None
        words = "did you mean " + " or ".join(mark + name for name in suggestions) + "?"
        return Suggestion(words, WordFix(word, suggestions))


@dataclass(slots=True)
class Subject:
    """The plan being checked, with its control flow, its input variables and the known tools.

    `tools` is None if there is no catalogue; then no tool counts as unknown.
    """

    plan: Plan
    flow: Flow
    inputs: frozenset[str]
    tools: Mapping[str, ToolSignature] | None
    given: dict[str, None] = field(init=False)
    """The variables that have a value before the first step, in a deterministic order."""
    _uses: list[Use] | None = field(default=None, init=False)
    _calls: list[tuple[int, Step, Call]] | None = field(default=None, init=False)
    _advisor: Advisor = field(default_factory=Advisor, init=False)

    def __post_init__(self) -> None:
        names = [name for name, _ in self.plan.variables]
        self.given = dict.fromkeys([*names, *sorted(self.inputs)])

    @property
    def uses(self) -> list[Use]:
        """Every read of a variable that the reading step does not set itself, in text order."""
        if self._uses is None:
            steps = enumerate(self.plan.steps)
            self._uses = [use for number, step in steps for use in uses_of(step, number)]
        return self._uses

    @property
    def calls(self) -> list[tuple[int, Step, Call]]:
        """The steps that make a call, with their numbers and the call."""
        if self._calls is None:
            steps = enumerate(self.plan.steps)
            self._calls = [(number, step, call) for number, step in steps if (call := step.call) is not None]
        return self._calls

    def suggest(self, word: str, known: Iterable[str], mark: str = "") -> Suggestion | None:
        """A "did you mean" about a word (`Advisor.suggest`)."""
        return self._advisor.suggest(word, known, mark)


PLACES = {
    Place.SOURCE: "the FOREACH source",
    Place.CONDITION: "the condition",
    Place.ARGUMENTS: "the arguments",
    Place.FAILURE: "the ON_FAIL message",
}
"""The parts of a step, as messages name them."""
