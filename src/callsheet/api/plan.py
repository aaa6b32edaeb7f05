"""The public `Plan`: a plan of the IR together with the text it was parsed from.

In: LTP text, Micro-CLI, JSON plans, files, canonical JSON. Out: an immutable `Plan` that can be checked and
written in every syntax, or PlanError with all errors.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from callsheet.api.arguments import ToolSource, read_tools
from callsheet.api.findings import Findings, PlanError
from callsheet.api.texts import plan_of_file, plan_of_json, read_text, unreadable
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.diagnostics.wrong_type import wanted, wanted_list, wanted_path, wrong
from callsheet.frontends.spelling import Syntax as Spelling
from callsheet.frontends.spelling import convert_to, doubts_about, format_as, read_as, read_plan_text
from callsheet.ir import Order, Step, plan_from_json, plan_hash, plan_to_json
from callsheet.ir import Plan as Steps
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.api.functions import PlanFunction
    from callsheet.api.runtime import Runtime
    from callsheet.frontends.values import ParseResult
    from callsheet.ir.diff import PlanDiff, TreeDiff

Syntax: TypeAlias = Literal["auto", "ltp", "micro", "dag", "python"]
"""A syntax of plans; `auto` detects Micro-CLI, JSON plans and Python, and reads all else as LTP text.

`dag` is a JSON plan, written as JSON or YAML.
"""

_OPTION = re.compile(r"--syntax (\w+)")
_HINT = "give the path of a plan"
_SUFFIXES: Mapping[str, Syntax] = {".ltp": "ltp", ".micro": "micro", ".py": "python"}
_YAML = (".yaml", ".yml")
_FILES = (".ltp", ".micro", ".json", ".py", *_YAML)


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A plan: its steps, and the text it was parsed from.

    `ir` is the plan itself; two plans are equal if these are, whatever their syntax, spans and comments.
    `source` is the text, None for a plan that was not parsed from text. `notes` are the parser's warnings
    and hints (loose spelling, prose around the plan). `path` is the file that it was loaded from, if any.

    >>> plan = Plan.parse('S1: @READ_FILE (path="a.txt") > $a')
    >>> plan
    <Plan <plan>, 1 step, 31d88ec8bdba>
    >>> print(plan, end="")
    # ltp: 1
    PLAN_START
    S1: @READ_FILE (path="a.txt") > $a
    PLAN_END
    """

    ir: Steps
    source: Source | None = field(default=None, compare=False)
    notes: tuple[Diagnostic, ...] = field(default=(), compare=False)
    path: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        wanted("ir", self.ir, Steps, "the steps of a plan; a text is read by Plan.parse")

    # ------------------------------------------------------------ reading

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        name: str = "<plan>",
        syntax: Syntax = "auto",
        language: Syntax | None = None,
        inputs: Collection[str] = (),
    ) -> Plan:
        """Parse a plan; `name` is the name of the text in messages, `language` another word for `syntax`.

        `inputs` names the variables that a run will get, so that a bare word in Micro-CLI can refer to one.
        Raises PlanError with all errors of the text.

        >>> Plan.parse('search "tea" > hits\\nrespond hits').step("S2").action
        Respond(values=(Ref(name='hits', path=()),))
        """
        spelling = syntax if language is None else language
        return cls.of_reading(_parse(wanted("text", text, str, "the text of a plan"), name, spelling, inputs))

    @classmethod
    def of(cls, function: PlanFunction[..., Any]) -> Plan:
        """The plan of a function with `@plan`, read from its source; nothing is executed.

        Raises PlanError with what a plan cannot say, TypeError for a function without `@plan`.
        """
        from callsheet.api.functions import PlanFunction  # noqa: PLC0415 - only for plans in modules

        return wanted("function", function, PlanFunction, "a function with @plan").plan

    @classmethod
    def of_reading(cls, result: ParseResult) -> Plan:
        """The plan of a text that was read. Raises PlanError with its errors."""
        if result.plan is None:
            raise PlanError(result.diagnostics, result.source)
        return cls(result.plan, result.source, result.diagnostics)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, syntax: Syntax | None = None, inputs: Collection[str] = ()
    ) -> Plan:
        """Read a plan from a file.

        Without `syntax` the suffix decides: `.ltp`, `.micro`, `.json` (canonical JSON or a JSON plan),
        `.yaml`, `.yml`, `.py`; any other is read as `auto`. Raises PlanError: CFG012 if the file cannot be
        read, else with all errors of the text.
        """
        place = wanted_path("path", path)
        loaded = cls._load(place, syntax, inputs)
        return replace(loaded, ir=_with_used(loaded, place), path=os.path.abspath(place))

    @classmethod
    def _load(cls, place: Path, syntax: Syntax | None, inputs: Collection[str]) -> Plan:
        try:
            with place.open("rb") as file:
                text = read_text(file, str(place), _HINT)
            if syntax is None and place.suffix == ".json":
                source = Source(str(place), text)
                return cls(plan_of_file(source), source)
        except OSError as error:
            wrong = unreadable(str(place), error.strerror or str(error), _HINT)
            raise PlanError.of(wrong) from error
        except CallsheetError as error:
            raise PlanError.of(error) from error
        if syntax in (None, "dag") and place.suffix in _YAML:
            from callsheet.frontends.dag import parse_dag  # noqa: PLC0415 - only for a JSON plan

            return cls.of_reading(parse_dag(text, str(place), is_yaml=True))
        given = syntax or _SUFFIXES.get(place.suffix, "auto")
        return cls.parse(text, name=str(place), syntax=given, inputs=inputs)

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> Plan:
        """Read a plan from canonical JSON, given as text or as data; raises PlanError (CFG001).

        >>> plan = Plan.parse("respond 1")
        >>> Plan.from_json(plan.to_json()) == plan
        True
        """
        try:
            if isinstance(data, str):
                source = Source("<json>", data)
                return cls(plan_of_json(source), source)
            return cls(plan_from_json(data))
        except CallsheetError as error:
            raise PlanError.of(error) from error

    # ------------------------------------------------------------ looking

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps, in the order of the text."""
        return self.ir.steps

    @property
    def title(self) -> str | None:
        """The title, if the plan has one."""
        return self.ir.title

    @property
    def goal(self) -> str | None:
        """The goal, if the plan states one."""
        return self.ir.goal

    @property
    def hash(self) -> str:
        """The SHA-256 of the canonical form, the same for a plan in any syntax."""
        return plan_hash(self.ir)

    def step(self, step_id: str) -> Step | None:
        """The step with this id, None if there is none."""
        return self.ir.step(step_id)

    def check(self, *, tools: Iterable[ToolSource] | None = None, inputs: Collection[str] = ()) -> Findings:
        """Check the plan; nothing is run.

        With `tools`, calls are checked against these, and all other tools are unknown; without, tools are
        not checked (`Runtime.check` uses those of a runtime). `inputs` names the variables that the run will
        get.

        >>> def greet(name: str) -> str: ...
        >>> plan = Plan.parse('S1: @GREET (nam="Ada") > $text\\nS2: @RESPOND ($text)')
        >>> [d.message for d in plan.check(tools=[greet]).errors]
        ['@GREET has no argument nam', '@GREET lacks its argument name']
        """
        from callsheet.api.checking import ALL_PROVIDERS, advised, check_plan  # noqa: PLC0415 - as above
        from callsheet.api.requirements import local_registry  # noqa: PLC0415 - as above

        registry = None if tools is None else local_registry(read_tools(tools), None)
        wanted_list("inputs", inputs, "names of variables")
        diagnostics = check_plan(self.ir, registry, inputs, providers=ALL_PROVIDERS)
        return Findings(advised(self.ir, diagnostics), self.source)

    def diff(self, new: Plan) -> PlanDiff | TreeDiff:
        """The differences from this plan to `new`: steps added, removed, changed, moved, renamed.

        >>> old = Plan.parse('search "tea" > hits')
        >>> (step,) = old.diff(Plan.parse('search "green tea" > hits')).different()
        >>> [(change.part.value, change.name) for change in step.changes]
        [('argument', 'query')]
        """
        from callsheet.ir.diff import diff_plans as differences  # noqa: PLC0415 - only to compare

        return differences(self.ir, wanted("new", new, Plan, "a Plan").ir)

    def as_tool(
        self,
        framework: Literal["langchain", "openai-agents", "pydantic-ai"],
        runtime: Runtime,
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Any:
        """The plan as a tool of another library, for its agents: each call is a run by `runtime`.

        The inputs of the plan are its arguments, the answer is its result. A run that fails, waits for people
        or is in doubt gives a text that says so and names the run. `name` is by default the title or the file
        of the plan, `description` its goal. Raises CallsheetError (CFG233) if the library is not installed.
        """
        from callsheet.api.bridges.frameworks import as_tool  # noqa: PLC0415 - only for other libraries

        return as_tool(self, framework, runtime, name, description)

    # ------------------------------------------------------------ writing

    def to_ltp(self) -> str:
        """The plan as LTP text, as `callsheet fmt` prints it.

        A dependency plan is written level by level; unlike the original, the text plan ends at the first
        failed step. A Python warning says what else would differ (DAG072), such as initial variables, which
        are replaced by their values. Raises CallsheetError (LTP070) for what LTP text cannot express.
        """
        return _converted(convert_to(Spelling.LTP, self.ir))

    def to_dag(self, *, tools: Iterable[ToolSource] = ()) -> str:
        """The plan as a JSON plan; raises CallsheetError (DAG070) for what a graph cannot express.

        The steps of an ordered text plan each depend on the step above. Positional arguments get their names
        from `tools`; transforms need not be given. A Python warning says what would differ (DAG072).

        >>> print(Plan.parse('S1: @READ_FILE (path="a.txt") > $a').to_dag(), end="")
        {
          "steps": [
            {
              "index": "S1",
              "title": "",
              "tool": "read_file",
              "args": {"path": "a.txt"},
              "depends_on": [],
              "result_variable": "a"
            }
          ]
        }
        """
        from callsheet.api.requirements import local_registry, parameters_of  # noqa: PLC0415 - not for reading alone

        registry = local_registry(read_tools(tools), None)
        return _converted(convert_to(Spelling.DAG, self.ir, parameters_of(self.ir, registry)))

    def to_micro(self) -> str:
        """The plan as Micro-CLI; raises CallsheetError (MIC070) for what Micro-CLI cannot express.

        >>> print(Plan.parse('S1: @WEB_SEARCH (query="tea") > $hits').to_micro(), end="")
        search "tea" > hits
        """
        return _converted(convert_to(Spelling.MICRO, self.ir))

    def to_mermaid(self) -> str:
        """The plan as a Mermaid flowchart."""
        from callsheet.views.mermaid import mermaid  # noqa: PLC0415 - only for pictures

        return mermaid(self.ir)

    def to_json(self) -> dict[str, Any]:
        """The plan as canonical JSON data; `from_json` reads it back."""
        return dict(plan_to_json(self.ir))

    def _repr_html_(self) -> str:
        from callsheet.api.notebooks import plan_html  # noqa: PLC0415 - only in notebooks

        return plan_html(self)

    def __str__(self) -> str:
        return format_as(Spelling.DAG if self.ir.order is Order.DAG else Spelling.LTP, self.ir)

    def __repr__(self) -> str:
        name = self.title or (self.source.name if self.source is not None else "of no text")
        count = len(self.steps)
        return f"<Plan {name}, {count} step{'s' if count != 1 else ''}, {self.hash[:12]}>"


def _with_used(plan: Plan, place: Path) -> Steps:
    """The steps with the plans that they use. Raises PlanError with all that cannot be read."""
    if plan.ir.tree is None:
        return plan.ir
    from callsheet.api.used_plans import with_used_plans  # noqa: PLC0415 - only for version 2

    try:
        return with_used_plans(plan.ir, place)
    except CallsheetError as error:
        raise PlanError(error.diagnostics, plan.source) from None


PlanLike: TypeAlias = "Plan | PlanFunction[..., Any] | str | os.PathLike[str]"
"""A plan, a function with `@plan`, the text of a plan, or the path of its file.

A `str` is text, unless it is a single word that ends in `.ltp`, `.micro`, `.json`, `.yaml`, `.yml` or `.py`:
no plan text looks like that.
"""


def as_plan(given: PlanLike, inputs: Collection[str] = ()) -> Plan:
    """The given plan, parsed or loaded if necessary; raises PlanError."""
    if isinstance(given, Plan):
        return given
    if isinstance(given, str):
        is_path = given.endswith(_FILES) and len(given.split(maxsplit=1)) == 1
        return Plan.load(given, inputs=inputs) if is_path else Plan.parse(given, inputs=inputs)
    if isinstance(cast("object", given), os.PathLike):
        return Plan.load(cast("os.PathLike[str]", given), inputs=inputs)
    if callable(given):
        from callsheet.api.functions import PlanFunction  # noqa: PLC0415 - only for plans in modules

        if isinstance(cast("object", given), PlanFunction):
            return given.plan
        name = getattr(given, "__name__", "it")
        raise TypeError(
            f"plan must be a function with @plan, and {name} has none: from callsheet import plan"
        )
    raise wrong("plan", given, "a Plan, a function with @plan, its text or its path")


def diff_plans(old: PlanLike, new: PlanLike) -> PlanDiff | TreeDiff:
    """The differences from one plan to another, each a Plan, its text or its path; the same as `Plan.diff`.

    >>> diff_plans('search "tea" > hits', 'search "green tea" > hits').is_same
    False
    """
    return as_plan(old).diff(as_plan(new))


def parse(text: str, *, name: str = "<plan>", syntax: Syntax = "auto", inputs: Collection[str] = ()) -> Plan:
    """Parse a plan; the same as `Plan.parse`."""
    return Plan.parse(text, name=name, syntax=syntax, inputs=inputs)


def _parse(text: str, name: str, syntax: Syntax, inputs: Collection[str]) -> ParseResult:
    wanted_list("inputs", inputs, "names of variables")
    match syntax:
        case "ltp" | "micro" | "dag" | "python":
            return read_as(Spelling(syntax), text, name, variables=inputs)
        case "auto":
            reading = read_plan_text(text, name, variables=inputs)
            if reading.result.plan is not None or reading.syntax in (None, Spelling.DAG, Spelling.PYTHON):
                return reading.result
            doubts = tuple(_in_words_of_python(each) for each in doubts_about(reading, text))
            return replace(reading.result, diagnostics=(*reading.result.diagnostics, *doubts))
        case _:
            raise ValueError(f"syntax is {syntax!r}; it is one of 'auto', 'ltp', 'micro', 'dag', 'python'")


def _in_words_of_python(doubt: Diagnostic) -> Diagnostic:
    return replace(doubt, help=_OPTION.sub(r'syntax="\1"', doubt.help or ""))


def _converted(converted: tuple[str, tuple[Diagnostic, ...]]) -> str:
    """The text of a conversion; what it changes is a Python warning at the call of the public method."""
    text, notes = converted
    for note in notes:
        if note.severity is Severity.WARNING:
            warnings.warn(f"{note.code}: {note.message}", UserWarning, stacklevel=3)
    return text
