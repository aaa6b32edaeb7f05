"""Recognises files that some program executes because of their name or folder.

In: a path. Out: yes or no. Covers shells, editors, build tools, package managers, servers, systems and
assistants. Files that a program runs because it names them are the matter of `running`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from callsheet import lazy
from callsheet.policy.paths import PathRefused, expression, host_path, readings_of, workspace_path

_NAMES = (
    "pip.conf gnumakefile cmakelists.txt appveyor.yml rakefile gemfile justfile tox.ini noxfile.py"
    " setup.py setup.cfg conftest.py sitecustomize.py usercustomize.py manage.py fabfile.py tasks.py"
    " dodo.py sconstruct wscript pyproject.toml pipfile package.json package-lock.json pom.xml build.xml"
    " build.rs cargo.toml go.mod build.sbt mix.exs composer.json vagrantfile procfile rc.local claude.md"
    " claude.local.md agents.md gemini.md skill.md copilot-instructions.md mcp.json policy.toml"
    " pytest.ini pylintrc mypy.ini ansible.cfg conf.py bunfig.toml turbo.json lerna.json nx.json"
    " build.bazel build workspace workspace.bazel module.bazel configure configure.ac configure.in"
    " meson.build earthfile tiltfile brewfile podfile fastfile dangerfile guardfile capfile snakefile"
    " config.ru package.swift nuget.config rebar.config project.clj deps.edn shadow-cljs.edn build.boot"
    " setup.hs dune dune-project elm.json gradle.properties build.sc go.work build.pl makefile.pl"
    " artisan cmakepresets.json xmake.lua pixi.toml pkgbuild apkbuild portfile singularity packerfile"
    " netlify.toml vercel.json wrangler.toml fly.toml firebase.json user-data preseed.cfg ks.cfg"
    " nodemon.json air.toml mage.go magefile.go pants.toml buck uv.toml devbox.json mlproject"
    " nextflow.config supervisord.conf php.ini web.config global.asax init.lua init.el gunicorn.conf.py"
    " inittab anacrontab warp.md qwen.md crush.md claude_desktop_config.json mcp_config.json"
    " opencode.json latexmkrc cdk.json heroku.yml nixpacks.toml hatch.toml poetry.toml pdm.toml"
    " bacon.toml reflex.conf conanfile.txt"
)
_ENDINGS = (
    "mk mak cmake dockerfile gemspec pth gradle service timer socket desktop plist sh bash zsh ksh csh"
    " fish command ps1 psm1 psd1 bat cmd com exe msi dll so dylib vbs wsf hta scr lnk reg app appimage"
    " deb rpm jar war tf nomad ltp xlsm docm pptm nix bzl m4 csproj fsproj vbproj targets cabal opam"
    " spec ebuild def hcl lock psgi php phtml cgi jsp asp aspx ashx cfm vim code-workspace"
    " sublime-project sublime-build sln vcxproj props proj pbxproj xcscheme jse vbe wsh wsc sct cpl pif"
    " inf msp application appref-ms library-ms scf xll xla xlam dotm xltm chm hlp iqy slk pkg mpkg dmg"
    " apk ipa xpi crx vsix snap flatpakref whl egg gem nupkg phar pyz pyc pyd class ear workflow scpt"
    " applescript ocx sys run node mount automount"
)
_PATTERNS = (
    "makefile* dockerfile* containerfile* docker-compose* compose.y*ml jenkinsfile* azure-pipelines*"
    " bitbucket-pipelines* cloudbuild.y*ml buildspec.y*ml taskfile.y*ml requirements*.txt gruntfile*"
    " gulpfile* webpack.config.* vite.config.* gradlew* mvnw* crontab* authorized_keys* sudoers* *.so.*"
    " pre-commit* post-commit* pre-push* pre-receive* post-receive* post-merge* post-checkout*"
    " pre-rebase* prepare-commit-msg* commit-msg* update-hook* mkdocs.y*ml lefthook*.y*ml deno.json*"
    " skaffold.y*ml directory.build.* mise*.toml action.y*ml stack.y*ml cabal.project* pubspec.y*ml"
    " *-wrapper.properties rust-toolchain* cartfile* cpanfile* conanfile.* vcpkg*.json premake*.lua"
    " environment.y*ml snapcraft.y*ml serverless.y*ml cloud-init* devenv.* dvc.y*ml chart.y*ml"
    " playbook*.y*ml kustomization.y*ml helmfile*.y*ml gatsby-*.js *-lock.* *_config.py"
    " eleventy.config.* ld.so.* *.gradle.kts *.config.js *.config.cjs *.config.mjs *.config.ts"
    " *.config.mts *.conf.js procfile.* pulumi*.y*ml render.y*ml"
)
_FOLDERS = (
    "git-hooks hooks autostart systemd launchagents launchdaemons bin sbin cron.daily cron.hourly"
    " cron.weekly cron.monthly site-packages githooks cgi-bin debian polkit-1"
)
_SYSTEM = (
    "applications bin boot dev etc lib lib32 lib64 library nix opt proc run sbin snap sys system usr var"
)
_DOCUMENTS = (".md", ".markdown", ".rst", ".adoc", ".txt")
_HIDDEN_DATA = ".cache .tmp .temp .data .log .logs .output .archive .drafts .notes .trash .well-known"
"""Dot folders that hold program output; all others hold configuration."""
_HIDDEN = lazy.pattern(
    r"\.(?!(?:\w*ignore|editorconfig|gitkeep|keep|nojekyll|nomedia|mailmap|gitmessage|ds_store)$)[^.]+"
    r"(?:\.(?:ya?ml|toml|[cm]?[jt]s|py|rb|exs|el|conf|ini|cfg|local))?"
    r"|\.\w*(?:rc|env|profile)(?:[._-].*)?|\.(?:aider|bash|gitlab-ci|lefthook|mcp|mise|pnpmfile|pre-commit|xsession|zsh).*"
)
"""Dot files that configure programs; plain lists such as `.gitignore` are excepted."""
_NAMES_SET, _ENDINGS_SET = frozenset(_NAMES.split()), frozenset(f".{end}" for end in _ENDINGS.split())
_FOLDERS_SET, _HIDDEN_DATA_SET = frozenset(_FOLDERS.split()), frozenset(_HIDDEN_DATA.split())
_SYSTEM_SET = frozenset(_SYSTEM.split())


@cache
def _pattern() -> re.Pattern[str]:
    """The compiled patterns; lazily, since compiling is slow."""
    return _any_of(_PATTERNS.split())


@cache
def _document_pattern() -> re.Pattern[str]:
    """The same for documents: `agents.md` is executed, `pre-commit.md` is not."""
    return _any_of([name for name in _PATTERNS.split() if not name.endswith("*")])


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{expression(name)})" for name in names), re.DOTALL)


@lru_cache(maxsize=4_096)
def is_executable(text: str) -> bool:
    """Whether some program executes the workspace file of this path because of its name.

    >>> is_executable("docs/notes.md"), is_executable(".github/workflows/ci.yml"), is_executable("RUN.SH")
    (False, True, True)
    >>> is_executable(".gitignore"), is_executable(".foorc"), is_executable(".cache/a.html")
    (False, True, False)
    >>> is_executable("out/pre-commit.md"), is_executable("AGENTS.md"), is_executable("requirements-dev.txt")
    (False, True, True)
    """
    try:
        path = workspace_path(text)
    except PathRefused:
        return True
    for reading in readings_of(path):
        folders, _, name = reading.casefold().rpartition("/")
        if _are_of_programs(folders) or _is_obeyed(name):
            return True
    return False


def is_executable_anywhere(text: str) -> bool:
    """The same for a path anywhere on a machine, as file servers take.

    Everything in a system folder counts as executed.

    >>> is_executable_anywhere("/home/ada/notes.md"), is_executable_anywhere("~/notes/a.txt")
    (False, False)
    >>> [is_executable_anywhere(path) for path in ("/home/../etc/motd", "~/.bashrc", "../a.md")]
    [True, True, True]
    """
    if text.startswith("~/"):
        return is_executable(text[2:].lstrip("/") or text)
    try:
        place = host_path(text).removeprefix("/")
    except PathRefused:
        return is_executable(text)
    return place.partition("/")[0].casefold() in _SYSTEM_SET or is_executable(place)


@lru_cache(maxsize=1_024)
def _are_of_programs(folders: str) -> bool:
    """Whether one of these folders is of programs; cached, since folders have many files."""
    return any(_is_of_programs(folder) for folder in folders.split("/"))


def _is_of_programs(folder: str) -> bool:
    """Whether files in a folder of this name are programs or their configuration."""
    if folder in _FOLDERS_SET or folder.endswith(".d"):
        return True
    return folder.startswith(".") and folder not in _HIDDEN_DATA_SET


def _is_obeyed(name: str) -> bool:
    at = name.rfind(".")
    if name in _NAMES_SET or (at >= 0 and name[at:] in _ENDINGS_SET):
        return True
    if at >= 0 and name[0] == "." and _HIDDEN.fullmatch(name):
        return True
    pattern = _document_pattern() if name.endswith(_DOCUMENTS) else _pattern()
    return pattern.fullmatch(name) is not None
