"""Recognises file names in texts without other evidence that they are file names."""

from __future__ import annotations

import re
from collections.abc import Iterator

NOT_KNOWN = "*"
"""Stands for a path that is computed at run time."""
_ENDINGS = (
    "txt md mdx rst org tex bib log csv tsv psv json jsonl ndjson geojson yaml yml toml ini cfg conf"
    " cnf properties xml html htm xhtml svg pdf rtf docx? xlsx? xlsm pptx? od[tsp] pages numbers epub"
    " eml mbox msg ics vcf po sql db db3 sqlite3? duckdb mdb parquet avro arrow feather orc np[yz] h5"
    " hdf5? nc mat rds rda pkl pickle joblib zip tar t?gz tgz bz2 xz zst 7z rar jar png jpe?g gif webp"
    " bmp tiff? heic ico wav mp3 mp4 m4a flac ogg mov avi mkv srt pem key crt cer p12 pfx jks keystore"
    " ppk kdbx gpg asc env tf tfvars tfstate dat bak old orig diff patch lock pyi? ipynb jsx? mjs cjs"
    " tsx? rb php pl lua r go rs c h cc cpp hpp java kt scala cs swift sh bash zsh ps1 bat css scss vue"
)
_NAMED = re.compile(rf"[^/]*[^/.][^/]*\.(?:{'|'.join(_ENDINGS.split())})(?:\.\w+)?", re.IGNORECASE)
_HIDDEN = re.compile(
    r"\.(?:env(?:\..+)?|[a-z]{2,}rc|ssh|aws|gnupg|kube|azure|pgpass|htpasswd|git-credentials|vault-token)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)"
)
"""Names without an extension of files with known content."""
_MAY_NAME = re.compile(rf"\.(?:{'|'.join(_ENDINGS.split())})\b|\.env\b|\.\w+rc\b|id_\w+|\.ssh|\.aws", re.I)
_LONGEST = 300
_APART = re.compile(r"[=@,:]")
_AS_ADDRESS = re.compile(r"file:(?://)?", re.IGNORECASE)
_NO_WORD = re.compile(r"[\s<>|'\"`(){}\[\]\\]")
_WORD = re.compile(r"[^\s'\"`;,()<>|&={}]+")


def is_file_name(text: str) -> bool:
    """Whether a text is one word with a file extension, or a known file name without one.

    >>> [is_file_name(t) for t in ("a/notes.txt", "*.pem", ".env", "id_rsa", "c.example", ".md", "see a.md")]
    [True, True, True, True, False, False, False]
    """
    if len(text) > _LONGEST or "://" in text or _NO_WORD.search(text):
        return False
    name = text.rstrip("/").rpartition("/")[2]
    return _NAMED.fullmatch(name) is not None or _HIDDEN.fullmatch(name) is not None


def may_name_files(program: str) -> bool:
    """Whether a program contains anything that could be a file name."""
    return _MAY_NAME.search(program) is not None


def names_in(word: str) -> Iterator[str]:
    """The file names in a word of a command line: the word itself, an option's value, or words quoted in it.

    >>> list(names_in("--data=@a.json")), list(names_in("file:///b.txt")), list(names_in("host:/c.txt"))
    (['a.json'], ['/b.txt'], ['/c.txt'])
    """
    if _AS_ADDRESS.match(word):
        yield _AS_ADDRESS.sub("", word, count=1)
    elif "://" not in word or _NO_WORD.search(word):
        pieces = _WORD.findall(word[:_LONGEST]) if _NO_WORD.search(word) else _APART.split(word)
        yield from (piece for piece in pieces if is_file_name(piece))
