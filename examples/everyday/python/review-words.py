async def main(message: str, repository: str = ".", words: list[str] = ["password", "TODO", "breakpoint()"]):
    """Commit the staged changes, unless a line that was added has a word that nobody wants to publish"""
    changes = await git_diff_staged(repo_path=repository)
    added = [
        line[1:].strip()
        for line in changes.splitlines()
        if line.startswith("+") and not line.startswith("+++")
    ]
    assert added, "nothing is staged"
    doubtful = [line for line in added if any(word in line for word in words)]
    if doubtful:
        return "Not committed. Look at:\n" + "\n".join(doubtful)
    commit = await git_commit(repo_path=repository, message=message)
    return commit
