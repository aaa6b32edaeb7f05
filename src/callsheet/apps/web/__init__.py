"""The web viewer of `callsheet serve`: ES modules without a build step, around the viewer of runs."""
