"""The commands of the group `callsheet lctl`."""
