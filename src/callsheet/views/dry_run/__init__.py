"""Renders a dry run of a plan as text (`dry_run_text`) and as JSON (`dry_run_json`)."""

from callsheet.views.dry_run.data import dry_run_json
from callsheet.views.dry_run.text import dry_run_text
from callsheet.views.dry_run.verdict import PolicyVerdict, Remark, RemarkKind

__all__ = ["PolicyVerdict", "Remark", "RemarkKind", "dry_run_json", "dry_run_text"]
