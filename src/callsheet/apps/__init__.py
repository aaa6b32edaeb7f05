"""The faces of callsheet: thin, without semantics of their own."""
