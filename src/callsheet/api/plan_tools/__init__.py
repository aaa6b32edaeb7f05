"""Three tools with which a model creates and runs plans, for any host that offers tools to a model."""

from callsheet.api.plan_tools.definitions import NAMES, mcp_tools, openai_tools
from callsheet.api.plan_tools.handlers import PlanProposal, PlanTools

__all__ = ["NAMES", "PlanProposal", "PlanTools", "mcp_tools", "openai_tools"]
