"""What a plan would do, for people (`dry_run_text`) and for programs (`dry_run_json`)."""

from callsheet.views.dry_run.data import dry_run_json
from callsheet.views.dry_run.held import Held, Said, Saying
from callsheet.views.dry_run.text import dry_run_text

__all__ = ["Held", "Said", "Saying", "dry_run_json", "dry_run_text"]
