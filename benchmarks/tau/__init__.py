"""Tasks of tau-bench as plans of version 2, run on its tools and compared with its end states."""
