"""Whether the grammars of plans and the parser agree, on random sentences, and how long grammars take."""
