"""The meaning of plans: a pure state machine that takes events and returns commands.

It never awaits, reads a clock, draws a random number or touches a file. Drivers feed it.
"""

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
    Decided,
    Decision,
    Doubted,
    Edited,
    Event,
    Failed,
    LimitsChanged,
    PlanCompiled,
    PolicyChanged,
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
from callsheet.machine.monitor.judging import PolicyRefusal
from callsheet.machine.program import Loop, Program, ToolFacts
from callsheet.machine.progress import Progress
from callsheet.machine.questions import Approval, Question
from callsheet.machine.remarks import Cut, Fact, Remark
from callsheet.machine.result import Outcome, Result, Status
from callsheet.machine.usage import Spent, Usage
from callsheet.machine.values import to_text

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
