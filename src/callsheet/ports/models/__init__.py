"""Language models: the operations that a plan asks of them, one focused prompt each."""
