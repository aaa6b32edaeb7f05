async def main(repository: str = ".", since: str = "yesterday"):
    """Say who did what since yesterday"""
    log = await git_log(repo_path=repository, max_count=200, start_timestamp=since)
    commits = [
        {
            "who": block.split("Author: ")[1].splitlines()[0],
            "what": block.split("Message: ")[1].splitlines()[0],
        }
        for block in log.split("Commit: ")[1:]
    ]
    people = sorted({commit.who for commit in commits})
    if not people:
        return f"Nobody has committed since {since}."
    lines = []
    for person in people:
        done = [commit.what for commit in commits if commit.who == person]
        lines.append(f"{person}: {'; '.join(done)}")
    return "\n".join(lines)
