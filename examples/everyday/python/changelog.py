# since: the day of the last release
async def main(since: str, repository: str = "."):
    """Write the news since the last release from the messages of the commits"""
    log = await git_log(repo_path=repository, max_count=500, start_timestamp=since)
    messages = [commit.split("Message: ")[1].strip().splitlines()[0] for commit in log.split("Commit: ")[1:]]
    added = [f"- {message[6:]}" for message in messages if message.startswith("feat: ")]
    mended = [f"- {message[5:]}" for message in messages if message.startswith("fix: ")]
    if not added and not mended:
        return f"Nothing new since {since}."
    news = "\n".join([f"# Since {since}\n", "## Added", *added, "", "## Mended", *mended])
    await write_file(path="NEWS.md", content=news)
    return f"NEWS.md: {len(added)} added, {len(mended)} mended."
