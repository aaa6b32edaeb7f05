"""Multi-turn tasks of BFCL as plans of version 2, run on its classes, compared with its answers."""
