"""The endpoints of the API, one module per kind; `table` lists them all."""
