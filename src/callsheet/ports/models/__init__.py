"""Language models and the model operations of plans, one focused prompt each."""
