"""Renders the differences between two plans as text (`plan_diff_text`) and JSON (`plan_diff_json`)."""

from callsheet.views.plan_diff.data import plan_diff_json
from callsheet.views.plan_diff.text import plan_diff_text

__all__ = ["plan_diff_json", "plan_diff_text"]
