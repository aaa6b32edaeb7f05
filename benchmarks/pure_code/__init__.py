"""What pure code may say, found by running a corpus of small programs on CPython 3.12 and on the executor."""
