"""Determines which files of the workspace a program sees: those that its call declares.

In: a call of a tool that runs code. Out: its `View`. The proof labels results by it, and the sandbox mounts
exactly that, so nothing depends on what the text of a program seems to do. Names of files in texts are hints.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from callsheet.policy.calls import Argument, CallView
from callsheet.policy.paths import PathRefused, is_pattern, workspace_path
from callsheet.policy.programs.one_liners import needs_no_file

READS = "reads"
"""The argument of a call that declares what its program reads."""
PROGRAM = ("code", "language", READS)
"""The arguments of code tools that determine what their program sees."""
_SANDBOXED = frozenset({"EXEC_CODE", "SHELL_EXEC"})
_APART = re.compile(r"[\s'\"`;,()<>|&=@${}:]+")
_LONGEST = 300
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
_NO_WORD = re.compile(r"[\s<>|'\"`(){}\[\]\\]")


class View(NamedTuple):
    """What a program sees of the workspace.

    `paths` are normal paths of files and folders, or globs; "" is the workspace itself. None stands for the
    whole workspace, because nothing was promised about the program.
    """

    paths: tuple[str, ...] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing limits what the program reads."""
        return self.paths is None


WHOLE, NOTHING = View(), View(())


def program_view(tool: str, call: CallView, usual: tuple[str, ...] | None = None) -> View:
    """What the program of a call of a folded tool name sees.

    It is what the call declares with `reads`; else nothing for a one-liner that has no use for files; else
    what the policy declares for the tool (`usual`); else everything. A path that is not known, or leads out
    of the workspace, promises nothing.

    >>> program_view("SHELL_EXEC", CallView("S1", "SHELL_EXEC", (Argument("code", ("make",)),)))
    View(paths=None)
    >>> program_view("SHELL_EXEC", CallView("S1", "SHELL_EXEC", (Argument("code", ("date",)),)))
    View(paths=())
    >>> reads = Argument("reads", (), items=(Argument("reads", ("./src/",)), Argument("reads", ("*.md",))))
    >>> program_view("EXEC_CODE", CallView("S1", "EXEC_CODE", (Argument("code", ("f()",)), reads)))
    View(paths=('src', '*.md'))
    """
    if tool not in _SANDBOXED:
        return WHOLE
    declared = _of_name(call, READS)
    if declared is not None:
        return _declared(declared)
    code, language = program_of(tool, call)
    return undeclared_view(code, language, usual)


def undeclared_view(code: str | None, language: str | None, usual: tuple[str, ...] | None = None) -> View:
    """What a program sees that declares nothing; None is a program or a language that is not known."""
    if code is not None and language is not None and needs_no_file(code, language):
        return NOTHING
    return WHOLE if usual is None else View(usual)


def program_of(tool: str, call: CallView) -> tuple[str | None, str | None]:
    """The program of a call and its language; None for one that is not known.

    >>> program_of("EXEC_CODE", CallView("S1", "EXEC_CODE", (Argument("code", ("f()",)),)))
    ('f()', 'python')
    """
    code, given = _of_name(call, "code"), _of_name(call, "language")
    language = "shell" if tool == "SHELL_EXEC" else "python" if given is None else given.text
    return (None if code is None else code.text), language


@lru_cache(maxsize=1_024)
def words_of(program: str) -> tuple[str, ...]:
    """The words of a program that may be paths, whatever it does with them.

    >>> words_of("f=.env; cat 'notes.txt' > $f --data=@a/b.json")
    ('f', '.env', 'cat', 'notes.txt', '--data', 'a/b.json')
    """
    words = (word for word in _APART.split(program) if word)
    return tuple(dict.fromkeys(word for word in words if len(word) <= _LONGEST))


def is_file_name(text: str) -> bool:
    """Whether a text is one word with a file extension, or a known file name without one.

    >>> [is_file_name(t) for t in ("a/notes.txt", "*.pem", ".env", "id_rsa", "c.example", ".md", "see a.md")]
    [True, True, True, True, False, False, False]
    """
    if len(text) > _LONGEST or "://" in text or _NO_WORD.search(text):
        return False
    name = text.rstrip("/").rpartition("/")[2]
    return _NAMED.fullmatch(name) is not None or _HIDDEN.fullmatch(name) is not None


def normal_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Declared paths in normal form, each once; raises PathRefused for one that leads out of the workspace.

    >>> normal_paths(("./src/", "data/**/*.csv", "."))
    ('src', 'data/**/*.csv', '')
    """
    return tuple(dict.fromkeys(map(workspace_path, paths)))


def _declared(argument: Argument) -> View:
    items = argument.items
    if not items and argument.text in ("", "[]"):  # an empty list
        return NOTHING
    texts = [item.text for item in items]
    if not texts or None in texts:
        return WHOLE
    try:
        return View(normal_paths(tuple(text for text in texts if text is not None)))
    except PathRefused:
        return WHOLE


def fixed_folder(path: str) -> str:
    """The folder below which everything is that a path or glob stands for.

    >>> fixed_folder("data/*/a.csv"), fixed_folder("src"), fixed_folder("*.md")
    ('data', 'src', '')
    """
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts) if is_pattern(part) or "{" in part), len(parts))
    return "/".join(parts[:at])


def _of_name(call: CallView, name: str) -> Argument | None:
    return next((a for a in call.arguments if a.name.casefold() == name), None)
