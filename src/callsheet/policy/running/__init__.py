"""Static analysis of programs in calls: which files they run, read and write."""

from callsheet.policy.running.file_names import is_file_name
from callsheet.policy.running.finding import finders_of, kinds_of
from callsheet.policy.running.languages import runs_file
from callsheet.policy.running.looking import only_looks
from callsheet.policy.running.named import Named
from callsheet.policy.running.opening import files_opened
from callsheet.policy.running.shell import FOLDERS_RUN, SETTINGS_OF_FOLDERS
from callsheet.policy.running.writing import files_written

__all__ = [
    "FOLDERS_RUN",
    "SETTINGS_OF_FOLDERS",
    "Named",
    "files_opened",
    "files_written",
    "finders_of",
    "is_file_name",
    "kinds_of",
    "only_looks",
    "runs_file",
]
