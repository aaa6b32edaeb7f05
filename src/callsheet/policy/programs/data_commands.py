"""Commands that treat files and standard input as data, and the options with which they execute them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

_TEXT = (
    "cat tac head tail less more nl od xxd hexdump strings wc sort uniq cut paste join comm tr fold fmt"
    " pr column expand unexpand rev grep egrep fgrep rg ag zgrep awk gawk mawk sed jq yq xq mlr csvcut"
    " csvgrep csvlook csvstat csvsort csvjson csvclean csvjoin xsv qsv dasel gron bc dc diff cmp sdiff"
    " colordiff wdiff patchutils look shuf split csplit tsort numfmt iconv dos2unix unix2dos recode file"
    " enca aspell hunspell spell pandoc html2text w3m lynx xmllint xmlstarlet pup htmlq markdown cmark"
    " black ruff flake8 pylint mypy isort pyright yapf autopep8 shellcheck shfmt prettier eslint gofmt"
    " rustfmt clang-format tidy pdftotext pdfinfo pdfgrep catdoc antiword bat batcat cloc tokei scc"
    " sloccount xan tee sponge pv envsubst seq yes"
)
_FILES = (
    "ls dir stat du df tree find realpath readlink basename dirname pathchk cp mv rm rmdir mkdir ln link"
    " unlink touch truncate mktemp chmod chown chgrp chattr rsync dd sync shred cksum sum md5sum sha1sum"
    " sha224sum sha256sum sha384sum sha512sum b2sum b3sum sha3sum xxhsum crc32 base32 base64 basenc"
    " uuencode uudecode gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd unzstd zstdcat lz4 brotli"
    " compress uncompress tar bsdtar zip unzip zipinfo 7z 7za ar cpio gpg gpgv openssl age minisign"
    " exiftool identify convert magick mogrify ffprobe ffmpeg sox soxi mediainfo jpegoptim optipng"
    " pngquant cwebp git inotifywait lsof fuser getfacl setfacl getfattr setfattr locate namei vdir"
)
_SHELL = (
    "echo printf true false : cd pushd popd pwd set unset export readonly declare typeset local let shift"
    " read mapfile readarray return exit break continue wait sleep date time test type which whence hash"
    " history help for select case esac in fi done } ) function umask ulimit times getopts printenv [ [["
    " curl wget whoami id hostname uname tput clear reset stty logger tty nproc free uptime"
)
_MODULES = (
    "json.tool json csv base64 zipfile tarfile gzip py_compile compileall ast tokenize dis difflib"
    " filecmp hashlib html http.server mimetypes quopri tabnanny pyclbr calendar black ruff flake8 pylint"
    " mypy isort yapf autopep8"
)
_GIT = (
    "add diff status log show commit rm mv blame grep ls-files ls-tree hash-object check-ignore init"
    " stash tag branch restore checkout reset shortlog describe rev-parse cat-file"
)
_READERS = frozenset(f"{_TEXT} {_FILES} {_SHELL}".split())
_MODULES_THAT_READ = frozenset(_MODULES.split())
_RUNNING_OPTION = re.compile(
    r"--(?:to-command|checkpoint-action|use-compress-program|compress-program|rsh|rsync-path|pre|info-script"
    r"|new-volume-script|filter|lua-filter|pager|diff-program|config|plugins?)(?:=.*)?|-TT"
)
_RUNNING_OPTIONS: Mapping[str, frozenset[str]] = {
    "tar": frozenset({"-I", "-F"}),
    "curl": frozenset({"-K"}),
    "rsync": frozenset({"-e"}),
    "pandoc": frozenset({"-F", "-L"}),
}
_CODE_OPTIONS = frozenset({"-f", "--file", "--from-file", "-L", "--include", "--load"})
_INPUT = re.compile(r"-|/dev/stdin|/(?:dev|proc/self)/fd/\d+")
_ASKS_INPUT = re.compile(rf"(?:-[fL]|--(?:file|from-file|include|load)=)(?:{_INPUT.pattern})")
_ASKING = frozenset({"awk", "gawk", "mawk", "sed", "jq", "yq", "bc", "dc", "mlr"})
"""Programs that have an option to execute a script file."""
_AWK_RUNS = re.compile(r"\bsystem\b|\|\s*(?:getline|&|[\"'])|\|&|[\"']\s*\|\s*getline|@load|@include")
_SED_RUNS = re.compile(
    r"[^\w\s][gpiImM0-9]*e[gpiImM0-9]*(?:$|[\s;}])|(?:^|[;{}\n]) ?[\d$,]* ?e(?:\s|$)", re.MULTILINE
)
_MADE = re.compile(r"\$\(|`")
"""A script that is computed at run time."""
_LINES = re.compile(r"\n\s+")
_BLANKS = re.compile(r"[ \t]+")
_GIT_READS = frozenset(_GIT.split())
_GIT_RUNS = re.compile(
    r"-c|--exec-path.*|--upload-pack.*|--receive-pack.*|--ext-diff|--textconv|--open-files-in-pager.*|-O.*"
)
_MAKES_EXECUTABLE = re.compile(r"[ugoa]*[+=][rwst]*x\S*|[0-7]*[1357][0-7]*")


_SHOWS_ONLY: Mapping[str, re.Pattern[str]] = {
    "tar": re.compile(r"-?[A-Za-z]*O[A-Za-z]*|--to-stdout"),
    "bsdtar": re.compile(r"-?[A-Za-z]*O[A-Za-z]*"),
    "unzip": re.compile(r"-[a-z]*[cltvpZz][a-z]*"),
}
_EXTRACTS: Mapping[str, re.Pattern[str]] = {
    "tar": re.compile(r"-[A-Za-z]*x[A-Za-z]*|--extract|--get"),
    "bsdtar": re.compile(r"-[A-Za-z]*x[A-Za-z]*"),
    "cpio": re.compile(r"-[A-Za-z]*i[A-Za-z]*|--extract"),
}
_EXTRACTS_FIRST: Mapping[str, re.Pattern[str]] = {
    "tar": re.compile(r"[A-Za-z]*x[A-Za-z]*"),
    "bsdtar": re.compile(r"[A-Za-z]*x[A-Za-z]*"),
    "ar": re.compile(r"-?x[A-Za-z]*"),
    "7z": re.compile(r"[ex]"),
    "7za": re.compile(r"[ex]"),
}
"""First operands with which an archiver extracts files."""


def is_reader(verb: str, operands: Sequence[str]) -> bool:
    """Whether a command treats its files and standard input as data.

    An unknown program may do anything with them.

    >>> is_reader("wc", ["-l"]), is_reader("awk", ["{system($0)}"]), is_reader("octave", [])
    (True, False, False)
    >>> is_reader("tar", ["tf", "-"]), is_reader("tar", ["xf", "-"])
    (True, False)
    """
    if verb not in _READERS or any(_RUNNING_OPTION.fullmatch(word) for word in operands):
        return False
    if not _RUNNING_OPTIONS.get(verb, frozenset[str]()).isdisjoint(operands):
        return False
    if _unpacks(verb, operands):
        return False
    if verb == "chmod":
        return not any(_MAKES_EXECUTABLE.fullmatch(word) for word in operands)
    if verb == "git":
        return _git_reads(operands)
    if _asks_input(verb, operands):
        return False
    if (verb.endswith("awk") or verb == "sed") and _MADE.match(_script_of(operands)):
        return False
    if verb.endswith("awk"):
        return not any(_AWK_RUNS.search(word) for word in operands)
    if verb == "sed":
        scripts = (word.partition("=")[2] if word.startswith("-") else word for word in operands)
        return not any(_SED_RUNS.search(_BLANKS.sub(" ", _LINES.sub("\n", script))) for script in scripts)
    return True


def _script_of(operands: Sequence[str]) -> str:
    """The script given to `sed` or `awk`."""
    scripts = (word for option, word in pairwise(operands) if option == "-e")
    return next(scripts, next((word for word in operands if not word.startswith("-")), ""))


def _unpacks(verb: str, operands: Sequence[str]) -> bool:
    """Whether a command extracts files from an archive, which determines their names and content."""
    if verb in _SHOWS_ONLY and any(_SHOWS_ONLY[verb].fullmatch(word) for word in operands):
        return False
    if verb == "unzip" or (verb in _EXTRACTS and any(_EXTRACTS[verb].fullmatch(word) for word in operands)):
        return True
    first = _EXTRACTS_FIRST.get(verb)
    return first is not None and bool(operands) and first.fullmatch(operands[0]) is not None


def asked_by_option(verb: str, option: str) -> bool:
    """Whether a reader executes the script file that follows this option."""
    return verb in _ASKING and option in _CODE_OPTIONS


def _asks_input(verb: str, operands: Sequence[str]) -> bool:
    """Whether a reader executes a script from its standard input (`awk -f -`).

    >>> _asks_input("awk", ["-f", "-"]), _asks_input("sed", ["-f/dev/stdin"]), _asks_input("awk", ["-F", "-"])
    (True, True, False)
    """
    if verb not in _ASKING:
        return False
    apart = any(
        asked_by_option(verb, option) and _INPUT.fullmatch(word) for option, word in pairwise(operands)
    )
    return apart or any(_ASKS_INPUT.fullmatch(word) for word in operands)


def _git_reads(operands: Sequence[str]) -> bool:
    subcommand = next((word for word in operands if not word.startswith("-")), "")
    return subcommand in _GIT_READS and not any(_GIT_RUNS.fullmatch(word) for word in operands)


def module_reads(module: str) -> bool:
    """Whether a Python module run with `-m` treats its files as data."""
    return module in _MODULES_THAT_READ
