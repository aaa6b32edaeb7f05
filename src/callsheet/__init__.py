"""callsheet: plans of tool calls, checked before they run, run crash-safe, explained afterwards.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    raise ImportError(
        "callsheet runs on Linux and macOS, as its journal locks files as POSIX has it; on Windows, use WSL"
    )

from callsheet.lazy import names_of
from callsheet.version import VERSION

TYPE_CHECKING = False  # what type checkers take as true; `typing` would cost half of the import
if TYPE_CHECKING:
    from callsheet.api.bridges.agent_session import AgentSession, CallWithheld
    from callsheet.api.bridges.frameworks import from_langchain, from_openai_agents, from_pydantic_ai
    from callsheet.api.bridges.openapi import from_openapi
    from callsheet.api.budget import SharedBudget
    from callsheet.api.compiling import Compiled, CompileFailed, CompileOptions
    from callsheet.api.continuation import Played
    from callsheet.api.dryrun import DryRun
    from callsheet.api.events import (
        CallInDoubt,
        CastFailed,
        PersonAnswered,
        PersonAsked,
        Replanned,
        RunEnded,
        RunEvent,
        StepDiverted,
        StepFailed,
        StepFinished,
        StepRemarked,
        StepRetrying,
        StepSkipped,
        StepStarted,
        StepTurned,
        VariableEdited,
    )
    from callsheet.api.explaining import Explanation, FailureReport, RunMoment
    from callsheet.api.findings import Findings, PlanError, RunInterrupted
    from callsheet.api.functions import (
        BudgetSpent,
        Denied,
        PlanFunction,
        Secret,
        ToolError,
        agent,
        ask_human,
        gather,
        llm,
        llm_classify,
        llm_extract,
        llm_summarize,
        note,
        now,
        plan,
        replan,
        today,
        undo,
    )
    from callsheet.api.handle import RunHandle
    from callsheet.api.models import (
        AgentAnswer,
        AgentTask,
        ChatModel,
        ModelRequest,
        OperationModel,
        ReplanRequest,
    )
    from callsheet.api.oneshot import arun, compile, run, verify  # noqa: A004 - callsheet.compile
    from callsheet.api.plan import Plan, diff_plans, parse
    from callsheet.api.plan_tools import PlanProposal, PlanTools
    from callsheet.api.planning import PlanRequest
    from callsheet.api.policies import load_policy
    from callsheet.api.proving import PolicyRefused, Proof
    from callsheet.api.recorded_runs import JournalEvent, RecordedRun, SearchMatch
    from callsheet.api.remote.runtime import RemoteRun, RemoteRuntime
    from callsheet.api.result import RunFailed, RunResult, StepResult
    from callsheet.api.run_differences import RunDifference
    from callsheet.api.runtime import Runtime
    from callsheet.diagnostics import CallsheetError, Diagnostic
    from callsheet.ir import Effect
    from callsheet.ir.diff import PlanDiff
    from callsheet.machine import Limits, Outcome, Refusal, TookPlace, Usage
    from callsheet.policy.model import Policy
    from callsheet.ports.builtin import BuiltinSettings
    from callsheet.ports.calls import CallContext, ToolFailed
    from callsheet.ports.models.model import Completion, Constraint, LanguageModel, ModelFailed, Syntax
    from callsheet.ports.models.opening import open_model
    from callsheet.ports.models.operations import ModelAnswer
    from callsheet.ports.models.scripted import RecordedModel, ScriptedModel
    from callsheet.ports.models.settings import ModelPrices, ModelSettings
    from callsheet.ports.python_tools import tool
    from callsheet.ports.tools import Tool
    from callsheet.ports.transforms import calc, format_text, select
    from callsheet.runtime.answers import Answer, PendingAsk
    from callsheet.runtime.doubt import DoubtfulCall
    from callsheet.runtime.telemetry.target import OtelSettings
    from callsheet.store import Journal, RunStatus
    from callsheet.store.library import PlanLibrary
    from callsheet.store.pauses import RunPause
    from callsheet.store.runs import RunFilter

__version__ = VERSION

_PLACES = {
    "callsheet.api.bridges.agent_session": "AgentSession CallWithheld",
    "callsheet.api.bridges.frameworks": "from_langchain from_openai_agents from_pydantic_ai",
    "callsheet.api.bridges.openapi": "from_openapi",
    "callsheet.api.budget": "SharedBudget",
    "callsheet.api.compiling": "Compiled CompileFailed CompileOptions",
    "callsheet.api.dryrun": "DryRun",
    "callsheet.api.events": (
        "CallInDoubt CastFailed PersonAnswered PersonAsked Replanned RunEnded RunEvent StepDiverted "
        "StepFailed StepFinished StepRemarked StepRetrying StepSkipped StepStarted StepTurned "
        "VariableEdited"
    ),
    "callsheet.api.findings": "Findings PlanError RunInterrupted",
    "callsheet.api.functions": (
        "BudgetSpent Denied PlanFunction Secret ToolError agent ask_human gather llm llm_classify "
        "llm_extract llm_summarize note now plan replan today undo"
    ),
    "callsheet.api.handle": "RunHandle",
    "callsheet.api.models": "AgentAnswer AgentTask ChatModel ModelRequest OperationModel ReplanRequest",
    "callsheet.api.oneshot": "arun compile run verify",
    "callsheet.api.explaining": "Explanation FailureReport RunMoment",
    "callsheet.api.run_differences": "RunDifference",
    "callsheet.api.plan": "diff_plans parse Plan",
    "callsheet.api.plan_tools": "PlanProposal PlanTools",
    "callsheet.api.planning": "PlanRequest",
    "callsheet.api.policies": "load_policy",
    "callsheet.api.proving": "PolicyRefused Proof",
    "callsheet.api.result": "RunFailed RunResult StepResult",
    "callsheet.api.runtime": "Runtime",
    "callsheet.api.continuation": "Played",
    "callsheet.api.remote.runtime": "RemoteRun RemoteRuntime",
    "callsheet.api.recorded_runs": "JournalEvent RecordedRun SearchMatch",
    "callsheet.diagnostics": "CallsheetError Diagnostic",
    "callsheet.ir": "Effect",
    "callsheet.ir.diff": "PlanDiff",
    "callsheet.machine": "Limits Outcome Refusal TookPlace Usage",
    "callsheet.policy.model": "Policy",
    "callsheet.ports.builtin": "BuiltinSettings",
    "callsheet.ports.models.model": "Completion Constraint LanguageModel ModelFailed Syntax",
    "callsheet.ports.models.opening": "open_model",
    "callsheet.ports.models.operations": "ModelAnswer",
    "callsheet.ports.models.scripted": "RecordedModel ScriptedModel",
    "callsheet.ports.models.settings": "ModelPrices ModelSettings",
    "callsheet.ports.python_tools": "tool",
    "callsheet.ports.calls": "CallContext ToolFailed",
    "callsheet.ports.tools": "Tool",
    "callsheet.ports.transforms": "calc format_text select",
    "callsheet.runtime.answers": "Answer PendingAsk",
    "callsheet.runtime.doubt": "DoubtfulCall",
    "callsheet.runtime.telemetry.target": "OtelSettings",
    "callsheet.store": "Journal RunStatus",
    "callsheet.store.library": "PlanLibrary",
    "callsheet.store.pauses": "RunPause",
    "callsheet.store.runs": "RunFilter",
}

__all__ = [
    "AgentAnswer",
    "AgentSession",
    "AgentTask",
    "Answer",
    "BudgetSpent",
    "BuiltinSettings",
    "CallContext",
    "CallInDoubt",
    "CallWithheld",
    "CallsheetError",
    "CastFailed",
    "ChatModel",
    "CompileFailed",
    "CompileOptions",
    "Compiled",
    "Completion",
    "Constraint",
    "Denied",
    "Diagnostic",
    "DoubtfulCall",
    "DryRun",
    "Effect",
    "Explanation",
    "FailureReport",
    "Findings",
    "Journal",
    "JournalEvent",
    "LanguageModel",
    "Limits",
    "ModelAnswer",
    "ModelFailed",
    "ModelPrices",
    "ModelRequest",
    "ModelSettings",
    "OperationModel",
    "OtelSettings",
    "Outcome",
    "PendingAsk",
    "PersonAnswered",
    "PersonAsked",
    "Plan",
    "PlanDiff",
    "PlanError",
    "PlanFunction",
    "PlanLibrary",
    "PlanProposal",
    "PlanRequest",
    "PlanTools",
    "Played",
    "Policy",
    "PolicyRefused",
    "Proof",
    "RecordedModel",
    "RecordedRun",
    "Refusal",
    "RemoteRun",
    "RemoteRuntime",
    "ReplanRequest",
    "Replanned",
    "RunDifference",
    "RunEnded",
    "RunEvent",
    "RunFailed",
    "RunFilter",
    "RunHandle",
    "RunInterrupted",
    "RunMoment",
    "RunPause",
    "RunResult",
    "RunStatus",
    "Runtime",
    "ScriptedModel",
    "SearchMatch",
    "Secret",
    "SharedBudget",
    "StepDiverted",
    "StepFailed",
    "StepFinished",
    "StepRemarked",
    "StepResult",
    "StepRetrying",
    "StepSkipped",
    "StepStarted",
    "StepTurned",
    "Syntax",
    "TookPlace",
    "Tool",
    "ToolError",
    "ToolFailed",
    "Usage",
    "VariableEdited",
    "agent",
    "arun",
    "ask_human",
    "calc",
    "compile",
    "diff_plans",
    "format_text",
    "from_langchain",
    "from_openai_agents",
    "from_openapi",
    "from_pydantic_ai",
    "gather",
    "llm",
    "llm_classify",
    "llm_extract",
    "llm_summarize",
    "load_policy",
    "note",
    "now",
    "open_model",
    "parse",
    "plan",
    "replan",
    "run",
    "select",
    "today",
    "tool",
    "undo",
    "verify",
]


if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` reports no misspelled name
    __getattr__ = names_of(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
