"""What strangers wrote goes into no file that somebody will execute."""

from __future__ import annotations

import re
from functools import lru_cache

from callsheet.ir.labels import Label, join
from callsheet.policy.builtins import PathUse, Traits
from callsheet.policy.calls import Argument, CallView, Rule
from callsheet.policy.globs import expression
from callsheet.policy.paths import PathRefused, readings_of, workspace_path
from callsheet.policy.rules.base import Notes, OfLabels, Setting, known, of_name

_NAMES = (
    ".bash*", ".profile", ".login", ".logout", ".zsh*", ".zprofile", ".zlogin", ".cshrc", ".tcshrc", ".kshrc",
    ".inputrc", ".vimrc", ".exrc", ".emacs", ".envrc", ".xinitrc", ".xsession*", ".gitconfig", ".gitmodules",
    ".gitattributes", ".npmrc", ".yarnrc*", ".pypirc", ".condarc", "pip.conf", ".netrc", ".curlrc", ".wgetrc",
    ".irbrc", ".pythonrc*", ".pdbrc", ".gdbinit", ".lldbinit", ".tmux.conf", ".screenrc", ".nanorc", ".env*",
    "makefile*", "gnumakefile", "*.mk", "*.mak", "cmakelists.txt", "*.cmake", "dockerfile*", "containerfile*",
    "*.dockerfile", "docker-compose*", "compose.y*ml", "jenkinsfile*", ".gitlab-ci*", ".travis.yml",
    "appveyor.yml", ".drone.yml", "azure-pipelines*", "bitbucket-pipelines*", "cloudbuild.y*ml",
    "buildspec.y*ml", ".pre-commit-*", "rakefile", "gemfile", "*.gemspec", "justfile", ".justfile",
    "taskfile.y*ml", "tox.ini", "noxfile.py", "setup.py", "setup.cfg", "conftest.py", "sitecustomize.py",
    "usercustomize.py", "*.pth", "manage.py", "fabfile.py", "tasks.py", "dodo.py", "sconstruct", "wscript",
    "pyproject.toml", "pipfile", "requirements*.txt", "package.json", "package-lock.json", "gruntfile*",
    "gulpfile*", "webpack.config.*", "vite.config.*", "*.gradle", "*.gradle.kts", "gradlew*", "mvnw*",
    "pom.xml", "build.xml", "build.rs", "cargo.toml", "go.mod", "build.sbt", "mix.exs", "composer.json",
    "vagrantfile", "procfile", "crontab*", "authorized_keys*", "sudoers*", "rc.local", "*.service", "*.timer",
    "*.socket", "*.desktop", "*.plist", "*.sh", "*.bash", "*.zsh", "*.ksh", "*.csh", "*.fish", "*.command",
    "*.ps1", "*.psm1", "*.psd1", "*.bat", "*.cmd", "*.com", "*.exe", "*.msi", "*.dll", "*.so", "*.so.*",
    "*.dylib", "*.vbs", "*.wsf", "*.hta", "*.scr", "*.lnk", "*.reg", "*.app", "*.appimage", "*.deb", "*.rpm",
    "*.jar", "*.war", "*.tf", "*.nomad", "pre-commit*", "post-commit*", "pre-push*", "pre-receive*",
    "post-receive*", "post-merge*", "post-checkout*", "pre-rebase*", "prepare-commit-msg*", "commit-msg*",
    "update-hook*", "claude.md", "claude.local.md", "agents.md", "gemini.md", "skill.md",
    "copilot-instructions.md", ".cursorrules", ".windsurfrules", ".clinerules", ".goosehints", ".aider*",
    "mcp.json", ".mcp.json", "*.ltp", "policy.toml", "*.xlsm", "*.docm", "*.pptm", "pytest.ini",
    ".pytest.ini", ".pylintrc", "pylintrc", "mypy.ini", ".mypy.ini", ".flake8", "mkdocs.y*ml",
    "ansible.cfg", "*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts",
    "*.config.mts", "*.conf.js", "conf.py", ".*rc.js", ".*rc.cjs", ".*rc.mjs", ".eslintrc*", ".babelrc*",
    ".lintstagedrc*", ".huskyrc*", ".pnpmfile.*", "lefthook*.y*ml", ".lefthook*.y*ml", "deno.json*",
    "bunfig.toml", "turbo.json", "lerna.json", "nx.json", "*.nix", "build.bazel", "build", "workspace",
    "workspace.bazel", "module.bazel", "*.bzl", ".bazelrc", "configure", "configure.ac", "configure.in",
    "*.m4", "meson.build", "earthfile", "tiltfile", "skaffold.y*ml", "brewfile", "podfile", "fastfile",
    "dangerfile", "guardfile", "capfile", "snakefile", "config.ru", ".rspec", ".pryrc", "package.swift",
    "directory.build.*", "*.csproj", "*.fsproj", "*.vbproj", "*.targets", "nuget.config", ".rprofile",
    ".renviron", ".psqlrc", ".mise*.toml", "mise*.toml", ".pam_environment", ".mailcap", ".procmailrc",
    ".forward", ".htaccess", "action.y*ml",
)  # fmt: skip
_FOLDERS = (
    ".git", ".hg", ".svn", ".github", ".gitlab", ".gitea", ".forgejo", ".circleci", ".buildkite",
    ".woodpecker", ".husky", ".githooks", "git-hooks", "hooks", ".vscode", ".idea", ".devcontainer", ".cargo",
    ".ssh", ".gnupg", ".claude", ".cursor", ".codex", ".windsurf", ".kiro", ".gemini", ".roo", ".zed",
    ".config", ".vim", ".kube", ".docker", "autostart", "systemd", "launchagents", "launchdaemons", "bin",
    "sbin", "cron.d", "cron.daily", "cron.hourly", "cron.weekly", "cron.monthly", "init.d", "profile.d",
    "site-packages",
)  # fmt: skip
_DOCUMENTS = (".md", ".markdown", ".rst", ".adoc", ".txt")
_FOLDERS_SET = frozenset(_FOLDERS)


@lru_cache(maxsize=2)
def _pattern(*, is_document: bool) -> re.Pattern[str]:
    """What the names match; made when it is needed first, which takes longer than all else of an import.

    A document, which people read, is run under its whole name alone: `agents.md`, and no `pre-commit.md`.
    """
    names = [name for name in _NAMES if not (is_document and name.endswith("*"))]
    return re.compile("|".join(f"(?:{expression(name)})" for name in names), re.DOTALL)


def prepare(setting: Setting, tool: str, traits: Traits | None) -> OfLabels | None:
    """EXECUTABLE for untrusted content in a file that a shell, a build, an editor or a system runs."""
    if traits is None or traits.path is None or traits.path_use is not PathUse.WRITE:
        return None
    held, name = traits, traits.path

    def check(call: CallView, notes: Notes) -> None:
        argument = of_name(call, name)
        if argument is None or not content_label(call, held).untrusted:
            return
        if may_be_executed(argument):
            notes.object(
                Rule.EXECUTABLE,
                f"@{tool} would put untrusted content where it is executed",
                name,
                help="write it to a file that nothing runs, such as .md or .txt",
            )

    return OfLabels(check, sees=(name,))


def content_label(call: CallView, traits: Traits) -> Label:
    """The label of what is put into the file: of everything but the path."""
    return join(a.label for a in call.arguments if a.name.casefold() != traits.path)


def may_be_executed(argument: Argument) -> bool:
    """Whether the file of that path may be one that is executed; an end that is not known may be anything."""
    if argument.items or not argument.parts:
        return True
    end = argument.parts[-1]
    if not isinstance(end, str) and end.text is None:
        return True
    return is_executable("".join(known(part, "x") for part in argument.parts))


@lru_cache(maxsize=4_096)
def is_executable(text: str) -> bool:
    """Whether something executes the file of this path sooner or later.

    >>> is_executable("docs/notes.md"), is_executable(".github/workflows/ci.yml"), is_executable("RUN.SH")
    (False, True, True)
    >>> is_executable("out/pre-commit.md"), is_executable("AGENTS.md"), is_executable("requirements-dev.txt")
    (False, True, True)
    """
    try:
        path = workspace_path(text)
    except PathRefused:
        return True
    for reading in readings_of(path):
        *folders, name = reading.casefold().split("/")
        named = _pattern(is_document=name.endswith(_DOCUMENTS))
        if not _FOLDERS_SET.isdisjoint(folders) or named.fullmatch(name):
            return True
    return False
