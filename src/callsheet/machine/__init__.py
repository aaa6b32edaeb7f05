"""What a plan means: a pure state machine that takes events and gives commands.

It never awaits, reads a clock, draws a random number or touches a file. Drivers feed it.
"""

from callsheet.machine.budget import Refusal
from callsheet.machine.commands import (
    Awaited,
    CallModel,
    CallTool,
    Command,
    Compile,
    Finish,
    RunAgent,
    Sleep,
)
from callsheet.machine.events import (
    Cancelled,
    Decided,
    Decision,
    Doubted,
    Event,
    Failed,
    LimitsChanged,
    PlanCompiled,
    Reopened,
    Started,
    Succeeded,
    TimerFired,
    TimeUp,
)
from callsheet.machine.limits import Limits
from callsheet.machine.machine import Machine
from callsheet.machine.program import Program, ToolFacts, compile_plan
from callsheet.machine.remarks import Cut, Fact, Remark
from callsheet.machine.result import Result, Status
from callsheet.machine.usage import Spent, Usage
from callsheet.machine.values import to_text

__all__ = [
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
    "Event",
    "Fact",
    "Failed",
    "Finish",
    "Limits",
    "LimitsChanged",
    "Machine",
    "PlanCompiled",
    "Program",
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
    "ToolFacts",
    "Usage",
    "compile_plan",
    "to_text",
]
