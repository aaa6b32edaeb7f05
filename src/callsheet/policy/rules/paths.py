"""PATH: files are opened only inside the workspace or where the policy allows; secrets need approval."""

from __future__ import annotations

import re
from collections.abc import Iterator

from callsheet.policy.builtins import PathUse, Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.paths import PathRefused, covers, host_path, matches, readings_of, workspace_path
from callsheet.policy.rules.base import Notes, OfLabels, Setting, known, of_name

_ANOTHER = "a tool of yours that does something else needs a name that no built-in tool has"
SENSITIVE = (
    "/etc/shadow*", "/etc/gshadow*", "/etc/passwd*", "/etc/sudoers", "/etc/sudoers.d/**", "/etc/ssh/**",
    "/proc/**", "/dev/**", "/sys/**", "/root/**", "/run/secrets/**", "/var/run/secrets/**", "/boot/**",
    "**/.ssh/**", "**/.aws/**", "**/.gnupg/**", "**/.kube/**", "**/.docker/**",
)  # fmt: skip
"""Host paths that no policy can open."""
_GLOB_WORDS = re.compile(r"[*?\[\]!]")
_UPWARDS = re.compile(r"(?<![^/\\{},])\.\.(?![^/\\{},])")
"""The parent folder in a glob, also as an alternative in braces."""


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """PATH for a path that is outside or unknown; an approval for a file that is secret by its name."""
    if traits is None or traits.path is None:
        return None
    name, use = traits.path, traits.path_use
    is_search = tool == "SEARCH_FILES"

    def check(call: CallView, notes: Notes) -> None:
        argument = of_name(call, name)
        if is_search:
            _search(setting, call, notes)
            if argument is None or argument.text in ("", "."):
                return
        if argument is None:
            notes.object(
                Rule.PATH, f"@{tool} has no {name}", name, help=f"name the {name} in the plan; {_ANOTHER}"
            )
        elif use is PathUse.HOST:
            _host(setting, tool, call, argument, notes)
        elif argument.text is not None:
            _workspace(setting, tool, call, argument.name, argument.text, notes)
        else:
            _unknown(setting, tool, call, argument, use, notes)

    return OfLabels(check, sees=(name, "glob") if is_search else (name,))


def _host(setting: Setting, tool: str, call: CallView, argument: Argument, notes: Notes) -> None:
    if argument.text is None:
        notes.object(
            Rule.PATH,
            f"the path of @{tool} is not known before the run",
            argument.name,
            help="write it in the plan",
        )
        return
    try:
        path = host_path(argument.text)
    except PathRefused as error:
        notes.object(Rule.PATH, str(error), argument.name, help="name a file by its full path")
        return
    if any(covers(pattern, path) for pattern in SENSITIVE):
        notes.object(
            Rule.PATH,
            f"{path} must not be read by a plan",
            argument.name,
            help="read another file; no policy allows this one",
        )
    elif not any(matches(pattern, path) for pattern in setting.policy.host_read):
        if not setting.is_approved(call):
            notes.object(
                Rule.PATH,
                f"{path} is not among the paths of the host that the policy lets a plan read",
                argument.name,
                help="name it in the policy, or approve the step",
            )
    elif setting.sources.file(path, True).is_secret and not setting.is_approved(call):
        notes.ask(f"{path} is a secret")


def _workspace(setting: Setting, tool: str, call: CallView, name: str, text: str, notes: Notes) -> None:
    try:
        path = workspace_path(text)
    except PathRefused as error:
        notes.object(Rule.PATH, f"{error}: {text!r}", name, help="name a file inside the workspace")
        return
    if setting.sources.file(path).is_secret and not setting.is_approved(call):
        notes.ask(f"@{tool} opens {path}, which is a secret by its name")


def _unknown(
    setting: Setting, tool: str, call: CallView, argument: Argument, use: PathUse, notes: Notes
) -> None:
    """Check a partly known path: it must not look like one outside, and one to read must be partly known."""
    if not argument.items and use is PathUse.WRITE and not any(isinstance(p, str) for p in argument.parts):
        return
    for guess in guesses(argument):
        if guess:
            _workspace(setting, tool, call, argument.name, guess, notes)
            if notes.objections or notes.approvals:
                return
    is_open = use is PathUse.READ and not any(isinstance(part, str) for part in argument.parts)
    if is_open and not setting.is_approved(call) and not call.in_agent:
        notes.object(
            Rule.PATH,
            f"the path that @{tool} reads is not known before the run",
            argument.name,
            help="write at least its folder in the plan",
        )


def guesses(argument: Argument) -> Iterator[str]:
    """Two possible texts of a partly known path."""
    for filling in ("x", ""):
        yield "".join(known(part, filling) for part in argument.parts)


def _search(setting: Setting, call: CallView, notes: Notes) -> None:
    """PATH for a glob that leads out of the searched folder; an approval for one of files that are secret by
    name.
    """
    glob = of_name(call, "glob")
    text = None if glob is None else glob.text
    if not text:
        return
    if _leads_out(text):
        notes.object(
            Rule.PATH,
            f"the glob leads out of the folder that is searched: {text!r}",
            "glob",
            help="search its folder",
        )
        return
    if setting.is_approved(call):
        return
    for bare in {text, _GLOB_WORDS.sub("", text), _GLOB_WORDS.sub("x", text)} - {""}:
        if any(setting.sources.file(reading).is_secret for reading in readings_of(bare.strip("/"))):
            notes.ask(f"@SEARCH_FILES searches {text}, whose name marks it as a secret")
            return


def _leads_out(glob: str) -> bool:
    """Whether a glob names files outside of the folder in which it is used.

    >>> [_leads_out(glob) for glob in ("docs/**/*.md", "../*.md", "a/%2e%2e/b", "/etc/*", "{a,../b}.md")]
    [False, True, True, True, True]
    """
    try:
        workspace_path(glob)
    except PathRefused:
        return True
    return any(_UPWARDS.search(reading) for reading in readings_of(glob))
