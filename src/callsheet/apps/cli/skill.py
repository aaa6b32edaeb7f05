"""`callsheet skill`: plans as Agent Skills, whose steps a model cannot skip."""

from __future__ import annotations

from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import to_stderr
from callsheet.apps.cli.plan_argument import NamedPlan
from callsheet.diagnostics import CallsheetError


@click.group()
def skill() -> None:
    """Make Agent Skills of plans."""


@skill.command()
@options.plan
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder of the skill; default: one of its name in .claude/skills.",
)
def export(plan: NamedPlan, output: Path | None) -> int:
    """Write a skill that runs PLAN: a folder with SKILL.md and the text of the plan.

    The skill tells a model what the plan is for and what its inputs are, and has it run the plan as a whole.
    An existing skill of the same name is replaced.
    """
    from callsheet.store.library import free_variables  # noqa: PLC0415 - not for --help
    from callsheet.views.skill import skill_name, skill_text  # noqa: PLC0415 - as above

    text = plan.read()
    made = text.require()
    suffix = {"python": ".py", "dag": ".json", "micro": ".micro"}.get(str(text.syntax), ".ltp")
    name = skill_name(made.title or made.id or Path(plan.plan).stem)
    folder = output or Path(".claude") / "skills" / name
    file = f"{name}{suffix}"
    words = skill_text(made, str(folder / file), [] if made.tree is not None else free_variables(made))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text.source.text, "utf-8")
        (folder / "SKILL.md").write_text(words, "utf-8")
    except OSError as error:
        raise CallsheetError.single("CFG012", f"{folder} cannot be written: {error.strerror}") from error
    to_stderr(f"wrote {folder / 'SKILL.md'} and {file}")
    return Exit.OK
