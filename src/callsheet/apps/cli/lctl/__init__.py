"""The commands of the group `callsheet lctl`, one module per command."""
