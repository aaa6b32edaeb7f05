"""Static analysis of programs in calls: which files they run, read and write."""

from callsheet.policy.programs.confined import only_modules
from callsheet.policy.programs.discovered_files import finders_of, kinds_of
from callsheet.policy.programs.file_matching import Named
from callsheet.policy.programs.file_names import is_file_name
from callsheet.policy.programs.languages import runs_file
from callsheet.policy.programs.read_only import only_looks
from callsheet.policy.programs.reads import files_opened
from callsheet.policy.programs.shell import FOLDERS_RUN, SETTINGS_OF_FOLDERS
from callsheet.policy.programs.writes import files_written

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
    "only_modules",
    "runs_file",
]
