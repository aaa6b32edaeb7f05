"""Structural diff of two plans: steps and statements added, removed, changed, moved, renamed."""

from callsheet.diagnostics import CallsheetError
from callsheet.ir.diff.differ import Change, Node, Part, PlanDiff, StepDiff, diff_steps
from callsheet.ir.diff.tree_differ import PartChange, Piece, PieceDiff, TreeDiff, diff_trees
from callsheet.ir.plan import Plan
from callsheet.ir.tree import Tree
from callsheet.ir.tree_edits import plan_of_tree


def diff_plans(old: Plan, new: Plan) -> PlanDiff | TreeDiff:
    """The differences between two plans of one version of the language; an empty plan is of both.

    Raises CallsheetError (CFG023) for a plan with blocks and one without.

    >>> from callsheet.ir import Literal, Respond, Step
    >>> old = Plan((Step("S1", Respond((Literal("a"),))),))
    >>> new = Plan((Step("S1", Respond((Literal("b"),))),))
    >>> [(c.part, c.name, c.old.value, c.new.value) for c in diff_plans(old, new).steps[0].changes]
    [(<Part.ARGUMENT: 'argument'>, 1, 'a', 'b')]
    """
    if old.tree is None and new.tree is None:
        return diff_steps(old, new)
    if old.tree is None and not old.steps:
        old = plan_of_tree(Tree(()))
    if new.tree is None and not new.steps:
        new = plan_of_tree(Tree(()))
    if old.tree is None or new.tree is None:
        raise CallsheetError.single(
            "CFG023",
            "a plan of version 1 is not compared with one of version 2",
            help="`callsheet upgrade` writes the plan of version 1 in version 2",
        )
    return diff_trees(old, new)


__all__ = [
    "Change", "Node", "Part", "PartChange", "Piece", "PieceDiff", "PlanDiff", "StepDiff", "TreeDiff",
    "diff_plans",
]  # fmt: skip
