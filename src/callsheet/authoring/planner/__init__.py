"""Plans of dependencies from a goal or for a failed graph, with one request to a model."""

from callsheet.authoring.planner.answer import read_graph_answer
from callsheet.authoring.planner.prompt import PLANNER_VERSION, plan_prompt, revision_prompt

__all__ = ["PLANNER_VERSION", "plan_prompt", "read_graph_answer", "revision_prompt"]
