"""The rules about documents that can be read, one family a file; the table lists them all."""
