"""The pages of the API, a module for each kind; `table` has them all."""
