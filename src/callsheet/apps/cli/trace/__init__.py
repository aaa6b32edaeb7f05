"""The commands of `callsheet trace`."""
