"""Measures compiling: our own goals with the plans that reach them, over catalogues of 5 to 60 tools."""
