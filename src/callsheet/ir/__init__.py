"""The intermediate representation (IR) of plans: immutable, typed, independent of syntax, tools and storage.

Every supported syntax is parsed into it and printed from it; analyses, execution and rendering work on it.
"""

from callsheet.ir.canon import IR_VERSION, plan_hash, plan_to_json
from callsheet.ir.canon_reader import plan_from_json
from callsheet.ir.effects import Effect, OnInDoubt
from callsheet.ir.expr import (
    JSON,
    And,
    Cast,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    PathPart,
    Ref,
    Template,
    Value,
)
from callsheet.ir.operations import CallKind, call_kind, canonical_tool_name, executor_name
from callsheet.ir.plan import Order, Plan
from callsheet.ir.step import (
    Action,
    Call,
    Foreach,
    Goto,
    OnFail,
    Output,
    Replan,
    Respond,
    Retry,
    Step,
    Terminate,
    word_of,
)

__all__ = [
    "IR_VERSION",
    "JSON",
    "Action",
    "And",
    "Call",
    "CallKind",
    "Cast",
    "Compare",
    "CompareOp",
    "Condition",
    "DictExpr",
    "Effect",
    "Foreach",
    "Goto",
    "IsEmpty",
    "ListExpr",
    "Literal",
    "Not",
    "NotEmpty",
    "OnFail",
    "OnInDoubt",
    "Or",
    "Order",
    "Output",
    "PathPart",
    "Plan",
    "Ref",
    "Replan",
    "Respond",
    "Retry",
    "Step",
    "Template",
    "Terminate",
    "Value",
    "call_kind",
    "canonical_tool_name",
    "executor_name",
    "plan_from_json",
    "plan_hash",
    "plan_to_json",
    "word_of",
]
