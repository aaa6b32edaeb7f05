"""The commands of the group `callsheet lctl`, one file a command."""
