"""The table of diagnostic codes; each has a page in `pages/` with an example and the repair.

Areas: LTP text (0xx errors, 1xx loose spellings with a fix), CHK what the checks find in a plan,
TOL tools and servers, RUN what can end a run, JRN the journal, CFG configuration and usage.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A code and its title: what is wrong, in a few words."""

    name: str
    title: str


def _table(**titles: str) -> dict[str, Code]:
    return {name: Code(name, title) for name, title in titles.items()}


CODES: dict[str, Code] = _table(
    CHK001="a variable that no step sets",
    CHK002="a variable that is set only later",
    CHK003="a variable that not every way sets",
    CHK005="a loop variable that hides another",
    CHK010="a step that is never reached",
    CHK011="a step reached only where an answer is empty",
    CHK012="a jump to a step that does not exist",
    CHK013="a jump to itself",
    CHK014="a loop without a way out",
    CHK015="a plan without an answer",
    CHK016="two steps with one id",
    CHK020="a group member that reads another's output",
    CHK021="two group members that set one variable",
    CHK030="a path into a value without parts",
    CHK031="a cast that the result never fits",
    CHK032="an output of a step without a result",
    CHK040="a tool that is not in the catalogue",
    CHK041="an argument that the tool does not have",
    CHK042="an argument that is missing",
    CHK043="more values than the tool has arguments",
    CHK044="an argument of the wrong type",
    CHK045="an argument that cannot work",
    CHK046="an operation with nothing to work on",
    CHK050="data that becomes code",
    CHK060="a dependency on no step",
    CHK061="steps that wait for one another",
    CHK062="a step that reads what it does not wait for",
    LTP001="no step in the text",
    LTP002="a line that is not a step",
    LTP003="an unknown version of the language",
    LTP004="a second plan in the text",
    LTP005="a step outside the markers",
    LTP006="too many errors",
    LTP007="a group in a group",
    LTP008="a group without an end",
    LTP009="a closing brace without a group",
    LTP010="a group without steps",
    LTP011="a step without an action",
    LTP012="a word that is no action",
    LTP013="a name that no tool can have",
    LTP014="THEN is missing",
    LTP015="ELSE is no word of the language",
    LTP016="a loop that says not what it goes over",
    LTP017="a guard that is unknown or too much",
    LTP018="a GOTO without a target",
    LTP019="text after the end of a step",
    LTP020="a text without an end",
    LTP021="a bracket or comma is missing or too much",
    LTP022="a value is missing",
    LTP023="a text without quotes",
    LTP024="a number that cannot be read",
    LTP025="a number too large to be one",
    LTP026="a value without a name after a named one",
    LTP027="an argument given twice",
    LTP028="a key given twice",
    LTP029="a key that is no text",
    LTP030="a reference that cannot be read",
    LTP031="brackets too deep",
    LTP032="a character that begins no value",
    LTP033="arguments without parentheses",
    LTP040="a condition that cannot be read",
    LTP041="an operator that does not exist",
    LTP042="a value alone is no condition",
    LTP050="a result without a place",
    LTP051="a type that does not exist",
    LTP052="an arrow that is not >",
    LTP060="an ON_FAIL that cannot be read",
    LTP061="a retry that cannot be read",
    LTP070="a plan that LTP text cannot say",
    LTP101="markers are missing",
    LTP102="a step without an id",
    LTP103="prose around the plan",
    LTP104="Markdown around the plan",
    LTP105="a word in other letters",
    LTP106="another spelling of a word",
    LTP107="a target in parentheses",
    LTP108="single quotes",
    LTP109="a variable without its $",
    LTP110="blanks around a type",
    LTP111="another spelling of a retry",
    LTP112="parentheses are missing",
    LTP113="= for ==",
    LTP114="a name where none is taken",
    LTP115="values without parentheses",
    LTP116="several steps on one line",
    LTP117="another spelling of a number",
    LTP118="a backslash that begins no escape",
    LTP119="a reference in a text that may be misread",
    LTP120="a $name in single quotes",
    CFG001="a plan that is not in canonical JSON",
    CFG010="a command line that cannot be read",
    CFG011="a variable that cannot be given so",
    CFG012="a plan that cannot be read",
    CFG014="a plan that cannot be written",
    CFG015="no such diagnostic code",
    CFG016="a configuration file that is wrong",
    CFG017="a run that does not tell of its tools",
    CFG100="a tools file that cannot be read",
    CFG101="a tools file that is not Python",
    CFG102="a tools file that fails while it is imported",
    CFG103="a tools file without tools",
    CFG104="two tools of one name in a file",
    CFG105="a function that cannot be a tool",
    CFG110="an MCP configuration that cannot be read",
    CFG111="an MCP configuration that is not JSON",
    CFG112="an MCP configuration of another shape",
    CFG113="an environment variable that is not set",
    JRN001="a run id that is none",
    JRN002="no such run in this journal",
    JRN003="a run of this id exists already",
    JRN004="a run that another process owns",
    JRN005="a run that was taken over",
    JRN006="a journal that could not be written",
    JRN007="a value that the journal cannot hold",
    JRN008="a file that is not a journal",
    JRN009="a journal of a newer format",
    JRN010="a journal in a place that cannot be used",
    JRN011="a journal on a network file system",
    JRN012="a damaged journal",
    JRN013="a journal handle in a forked process",
    JRN014="no such plan in this journal",
    JRN020="a run whose events cannot be read",
    JRN021="tools that have changed since the start",
    RUN001="a graph of dependencies cannot be run",
    RUN010="a step that this version cannot carry out",
    TOL001="a tool that nobody offers",
    TOL002="two tools that cannot be told apart",
    TOL003="a tool that more than one server offers",
    TOL010="an MCP server that cannot be started",
    TOL011="an MCP server that ends at once",
    TOL012="an MCP server that does not answer",
    TOL013="an MCP server that cannot be reached",
    TOL014="an MCP server with which no session comes about",
    TOL015="an effect for a tool that the server does not offer",
    TOL101="built-in tools that cannot be set up as configured",
    TOL102="no sandbox for code on this machine",
    TOL103="a web search without a search service",
    TOL104="installing packages is not allowed",
)


def explain(code: str) -> str | None:
    """The page of a code as Markdown, or None if there is no such code."""
    if code.upper() not in CODES:
        return None
    from importlib import resources  # noqa: PLC0415 - costs more than the rest of the layer

    page = resources.files("callsheet.diagnostics") / "pages" / f"{code.upper()}.md"
    return page.read_text(encoding="utf-8")
