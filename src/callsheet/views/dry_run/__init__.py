"""Renders a dry run of a plan as text (`dry_run_text`) and as JSON (`dry_run_json`)."""

from callsheet.views.dry_run.data import dry_run_json
from callsheet.views.dry_run.held import Held, Said, Saying
from callsheet.views.dry_run.text import dry_run_text

__all__ = ["Held", "Said", "Saying", "dry_run_json", "dry_run_text"]
