"""Operations on a text that is being edited: its marks; at a place proposals, explanations and names."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from callsheet.apps.operations.editing import (
    AnalysisContext,
    CompletionResult,
    HoverResult,
    MarksResult,
    NameResult,
    RenameResult,
    complete,
    explain_at,
    marks_of,
    name_at,
    renamed,
    tools_of,
)
from callsheet.apps.table.arguments import Names, PlanArguments, PolicyName
from callsheet.apps.table.operation import Context, Operation, text_endpoint


class EditedArguments(PlanArguments):
    """A text that is being edited."""

    inputs: Names = Field([], description="Names of variables that the run will get.")
    policy: PolicyName = Field(None, description="By default the policy of the server, if it has one.")

    def terms(self, context: Context) -> AnalysisContext:
        """What the text is checked against; no server is asked for its tools."""
        declared = context.host.tools.declared
        policy = context.policy if self.policy is None else context.policy_for(self.policy)
        inputs = tuple(self.inputs)
        return AnalysisContext(declared.setup, tools_of(declared), policy, inputs, declared.providers)


class PlaceArguments(EditedArguments):
    """A place in a text that is being edited."""

    at: int = Field(ge=0, le=2**53, description="The place, in characters from the beginning of the text.")


class RenameArguments(PlaceArguments):
    """Another name for what stands at a place in a text that is being edited."""

    name: str = Field(description="The new name.", max_length=200)


async def marks(context: Context, args: EditedArguments) -> MarksResult:
    """What an editor shows of a plan: its findings with fixes, and the tokens and hints of its text.

    It is checked as by `/v1/validate`, without asking servers, and under a policy as by `/v1/verify`.
    """
    return await context.host.beside(lambda: marks_of(args.text(args.inputs), args.terms(context)).to_json())


async def completion(context: Context, args: PlaceArguments) -> CompletionResult:
    """What may stand at a place of a plan, which may be incomplete."""
    return await context.host.beside(lambda: complete(args.text(args.inputs), args.at, args.terms(context)))


async def hover(context: Context, args: PlaceArguments) -> HoverResult:
    """What is known of the word at a place of a plan; nothing in the response if nothing is."""
    return await context.host.beside(lambda: explain_at(args.text(args.inputs), args.at, args.terms(context)))


async def name(context: Context, args: PlaceArguments) -> NameResult:
    """What the name at a place of a plan refers to: a variable, a step, a sub-plan."""
    return await context.host.beside(lambda: name_at(args.text(args.inputs), args.at))


async def renaming(context: Context, args: RenameArguments) -> RenameResult:
    """The edits that give a variable, a step or a sub-plan another name."""
    return await context.host.beside(lambda: renamed(args.text(args.inputs), args.at, args.name))


EDITING_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        work=marks,
        arguments=EditedArguments,
        result=MarksResult,
        http=text_endpoint("/v1/editor/marks", "Mark a plan that is edited"),
    ),
    Operation(
        work=completion,
        arguments=PlaceArguments,
        result=CompletionResult,
        http=text_endpoint("/v1/editor/completion", "Complete a plan that is edited"),
    ),
    Operation(
        work=hover,
        arguments=PlaceArguments,
        result=HoverResult,
        http=text_endpoint("/v1/editor/hover", "Explain a word of a plan that is edited"),
    ),
    Operation(
        work=name,
        arguments=PlaceArguments,
        result=NameResult,
        http=text_endpoint("/v1/editor/name", "Find what a name of a plan that is edited refers to"),
    ),
    Operation(
        work=renaming,
        arguments=RenameArguments,
        result=RenameResult,
        http=text_endpoint("/v1/editor/rename", "Rename a name of a plan that is edited"),
    ),
)
"""The operations of an editor."""
