"""The web viewer of `callsheet serve`: ES modules without a build step, which include the viewer of runs."""
