"""The commands of the group `callsheet trace`."""
