"""The meaning of plans: a pure state machine that takes events and returns commands.

It never awaits, reads a clock, draws a random number or touches a file. Drivers feed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.lazy import names_of

if TYPE_CHECKING:
    from callsheet.machine.budget import Refusal
    from callsheet.machine.commands import (
        AgentTurn,
        Ask,
        Awaited,
        CallModel,
        CallTool,
        Command,
        Compile,
        Finish,
        Probe,
        RunAgent,
        Sleep,
    )
    from callsheet.machine.compiling import compile_plan
    from callsheet.machine.events import (
        Answered,
        Cancelled,
        Cut,
        Decided,
        Decision,
        Doubted,
        Edited,
        Event,
        Fact,
        Failed,
        LimitsChanged,
        PlanCompiled,
        PolicyChanged,
        Remark,
        Reopened,
        Started,
        Succeeded,
        TimerFired,
        TimeUp,
        TookPlace,
        Verdict,
    )
    from callsheet.machine.limits import Limits
    from callsheet.machine.machine import Machine
    from callsheet.machine.monitor.enforcement import Enforcement
    from callsheet.machine.program import Loop, Program, ToolFacts
    from callsheet.machine.progress import Progress
    from callsheet.machine.questions import Approval, Question
    from callsheet.machine.result import Outcome, PolicyRefusal, Result, Status
    from callsheet.machine.usage import Spent, Usage
    from callsheet.machine.values import to_text

_PLACES = {
    "callsheet.machine.budget": "Refusal",
    "callsheet.machine.commands": (
        "AgentTurn Ask Awaited CallModel CallTool Command Compile Finish Probe RunAgent Sleep"
    ),
    "callsheet.machine.compiling": "compile_plan",
    "callsheet.machine.events": (
        "Answered Cancelled Cut Decided Decision Doubted Edited Event Fact Failed LimitsChanged "
        "PlanCompiled PolicyChanged Remark Reopened Started Succeeded TimeUp TimerFired TookPlace Verdict"
    ),
    "callsheet.machine.limits": "Limits",
    "callsheet.machine.machine": "Machine",
    "callsheet.machine.monitor.enforcement": "Enforcement",
    "callsheet.machine.program": "Loop Program ToolFacts",
    "callsheet.machine.progress": "Progress",
    "callsheet.machine.questions": "Approval Question",
    "callsheet.machine.result": "Outcome PolicyRefusal Result Status",
    "callsheet.machine.usage": "Spent Usage",
    "callsheet.machine.values": "to_text",
}

__all__ = [
    "AgentTurn",
    "Answered",
    "Approval",
    "Ask",
    "Awaited",
    "CallModel",
    "CallTool",
    "Cancelled",
    "Command",
    "Compile",
    "Cut",
    "Decided",
    "Decision",
    "Doubted",
    "Edited",
    "Enforcement",
    "Event",
    "Fact",
    "Failed",
    "Finish",
    "Limits",
    "LimitsChanged",
    "Loop",
    "Machine",
    "Outcome",
    "PlanCompiled",
    "PolicyChanged",
    "PolicyRefusal",
    "Probe",
    "Program",
    "Progress",
    "Question",
    "Refusal",
    "Remark",
    "Reopened",
    "Result",
    "RunAgent",
    "Sleep",
    "Spent",
    "Started",
    "Status",
    "Succeeded",
    "TimeUp",
    "TimerFired",
    "TookPlace",
    "ToolFacts",
    "Usage",
    "Verdict",
    "compile_plan",
    "to_text",
]

if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` reports no misspelled name
    __getattr__ = names_of(__name__, _PLACES)
