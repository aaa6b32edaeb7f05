from callsheet import ask_human, today


async def main(repository: str = "."):
    """Commit what has changed in the notes, after one look"""
    status = await git_status(repo_path=repository)
    if "nothing to commit" in status:
        return "There is nothing to save."
    await git_add(repo_path=repository, files=["."])
    changes = await git_diff_staged(repo_path=repository)
    answer = await ask_human(f"Save these changes?\n{changes}", options=["yes", "no"])
    if answer == "no":
        await git_reset(repo_path=repository)
        return "Nothing was saved."
    commit = await git_commit(repo_path=repository, message=f"Notes of {today()}")
    return commit
