from datetime import date, timedelta
from callsheet import today


# age: days without a commit
async def main(repository: str = ".", age: int = 90):
    """List the branches on which nothing has happened for a long time"""
    listing = await git_branch(repo_path=repository, branch_type="local")
    branches = [line.strip("* ") for line in listing.splitlines()]
    last_commits = []
    for branch in branches:
        commit = await git_show(repo_path=repository, revision=branch)
        day = date.fromisoformat(commit.split("Date: ")[1].strip()[:10])
        last_commits.append({"name": branch, "day": day})
    stale = [branch for branch in last_commits if today() - branch.day > timedelta(days=1) * age]
    if not stale:
        return f"All {len(branches)} branches are alive."
    lines = [
        f"{branch.name}, last commit on {branch.day}"
        for branch in sorted(stale, key=lambda branch: branch.day)
    ]
    return "\n".join(lines)
