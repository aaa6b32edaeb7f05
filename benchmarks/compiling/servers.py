"""A developer's desk: tools as widely used MCP servers declare them, and goals of its user.

Named and typed as those of the servers for files, a memory graph, time, GitHub and Slack. Files and memory
declare their results, as those servers do; GitHub and Slack answer with JSON that nothing declares. The goals
of `servers.jsonl` are scored as those of the office are (`jobs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict

from benchmarks.compiling.jobs import Place, tasks_of
from benchmarks.compiling.worlds import Task

GOALS = Path(__file__).parent / "servers.jsonl"


class Text(TypedDict):
    content: str


class Entity(TypedDict):
    name: str
    entityType: str
    observations: list[str]


class Graph(TypedDict):
    entities: list[Entity]


class Observations(TypedDict):
    entityName: str
    contents: list[str]


class Desk(Place):
    """One repository, one workspace of chats, a folder and a memory."""

    @staticmethod
    def start() -> dict[str, Any]:
        return {
            "files": {"notes/draft.md": "Ship on Friday.", "notes/old.md": "x", "archive/a.md": "y"},
            "entities": [
                {"name": "Lena", "entityType": "person", "observations": ["works in Oslo"]},
                {"name": "Falcon", "entityType": "project", "observations": ["starts in May"]},
            ],
            "issues": [
                {
                    "number": 12,
                    "title": "Login fails",
                    "state": "open",
                    "labels": ["bug"],
                    "assignees": ["ada"],
                },
                {"number": 14, "title": "Dark mode", "state": "open", "labels": ["stale"], "assignees": []},
                {"number": 15, "title": "Typo", "state": "open", "labels": ["stale", "bug"], "assignees": []},
                {"number": 9, "title": "Old", "state": "closed", "labels": ["bug"], "assignees": []},
            ],
            "comments": [],
            "channels": [{"id": "C01", "name": "general"}, {"id": "C02", "name": "ops"}],
            "users": [{"id": "U1", "name": "ada"}, {"id": "U2", "name": "ben"}],
            "posts": [],
        }

    def read_text_file(self, path: str) -> Text:
        """Read the complete contents of a file from the file system as text."""
        return {"content": self.state["files"][path]}

    def write_file(self, path: str, content: str) -> Text:
        """Create a new file or completely overwrite an existing file with new content."""
        self.state["files"][path] = content
        return {"content": f"Successfully wrote to {path}"}

    def list_directory(self, path: str) -> Text:
        """List all files of a directory, one a line, each after [FILE]."""
        own = [name for name in self.state["files"] if name.startswith(path.strip("./") + "/")]
        return {"content": "\n".join(f"[FILE] {name.rpartition('/')[2]}" for name in own)}

    def move_file(self, source: str, destination: str) -> Text:
        """Move or rename a file. Fails if the destination exists."""
        if destination in self.state["files"]:
            raise ValueError(f"{destination} exists")
        self.state["files"][destination] = self.state["files"].pop(source)
        return {"content": f"Successfully moved {source}"}

    def search_nodes(self, query: str) -> Graph:
        """Search for entities of the knowledge graph by a query."""
        found = [e for e in self.state["entities"] if query.casefold() in str(e).casefold()]
        return {"entities": found}

    def add_observations(self, observations: list[Observations]) -> Graph:
        """Add new observations to existing entities in the knowledge graph."""
        for each in observations:
            self.one("entities", "name", each["entityName"])["observations"].append(len(each["contents"]))
        return {"entities": self.state["entities"]}

    def delete_entities(self, entityNames: list[str]) -> Text:
        """Delete entities and their relations from the knowledge graph."""
        for name in entityNames:
            self.state["entities"].remove(self.one("entities", "name", name))
        return {"content": "Entities deleted successfully"}

    def convert_time(self, source_timezone: str, time: str, target_timezone: str):
        """Convert a time (HH:MM) between IANA time zones. Returns {source, target, time_difference}."""
        hours = {"Europe/Berlin": 1, "Asia/Tokyo": 9, "America/New_York": -5}
        hour, _, minute = time.partition(":")
        at = (int(hour) + hours[target_timezone] - hours[source_timezone]) % 24
        return {"source": time, "target": f"{at:02}:{minute}", "time_difference": "h"}

    def list_issues(
        self,
        owner: str,
        repo: str,
        state: Literal["open", "closed", "all"] = "open",
        labels: list[str] | None = None,
    ):
        """List issues in a GitHub repository with filtering options."""
        self._repository(owner, repo)
        return [
            issue
            for issue in self.state["issues"]
            if state in ("all", issue["state"]) and set(labels or ()) <= set(issue["labels"])
        ]

    def get_issue(self, owner: str, repo: str, issue_number: int):
        """Get details of a specific issue in a GitHub repository."""
        self._repository(owner, repo)
        return self.one("issues", "number", issue_number)

    def create_issue(
        self,
        owner: str,
        repo: str,
        title: str,
        body: str | None = None,
        labels: list[str] | None = None,
        assignees: list[str] | None = None,
    ):
        """Create a new issue in a GitHub repository."""
        self._repository(owner, repo)
        row = {"number": 20, "title": title.casefold(), "labels": labels or [], "assignees": assignees or []}
        self.state["issues"].append(row)
        return row

    def update_issue(
        self,
        owner: str,
        repo: str,
        issue_number: int,
        state: Literal["open", "closed"] | None = None,
        title: str | None = None,
        assignees: list[str] | None = None,
    ):
        """Update an existing issue in a GitHub repository."""
        self._repository(owner, repo)
        changed = {"state": state, "title": title, "assignees": assignees}
        issue = self.one("issues", "number", issue_number)
        issue.update({key: value for key, value in changed.items() if value is not None})
        return issue

    def add_issue_comment(self, owner: str, repo: str, issue_number: int, body: str):
        """Add a comment to an existing issue."""
        self._repository(owner, repo)
        self.one("issues", "number", issue_number)
        self.state["comments"].append(issue_number)
        return {"id": 1}

    def slack_list_channels(self, limit: int = 100):
        """List public channels in the workspace. Returns {ok, channels: [{id, name}]}."""
        return {"ok": True, "channels": self.state["channels"]}

    def slack_get_users(self, limit: int = 100):
        """Get a list of all users in the workspace. Returns {ok, members: [{id, name}]}."""
        return {"ok": True, "members": self.state["users"]}

    def slack_post_message(self, channel_id: str, text: str):
        """Post a new message to a Slack channel or direct message to a user."""
        known = [each["id"] for each in (*self.state["channels"], *self.state["users"])]
        if channel_id not in known:
            raise ValueError("channel_not_found")
        self.state["posts"].append(channel_id)
        return {"ok": True}

    @staticmethod
    def _repository(owner: str, repo: str) -> None:
        if (owner, repo) != ("acme", "shop"):
            raise ValueError("Not Found")


def server_tasks() -> Iterator[Task]:
    """The goals of `servers.jsonl`."""
    yield from tasks_of(GOALS, {"desk": Desk})
