"""What programs in calls see of the workspace: what they declare, nothing, or all of it."""

from callsheet.policy.programs.one_liners import only_looks
from callsheet.policy.programs.view import READS, View, is_file_name, program_view, words_of

__all__ = ["READS", "View", "is_file_name", "only_looks", "program_view", "words_of"]
