"""The web viewer: the pages of `callsheet serve`, ES modules without a build around the viewer of runs."""
