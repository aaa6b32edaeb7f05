"""The rules for readable documents, one family per module; `table` lists them all."""
