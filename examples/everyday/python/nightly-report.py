import json
from callsheet import gather, today


async def main(repository: str = "."):
    """Write the report of the night: open tickets, work since yesterday, the state of the repository"""
    tickets, work, state = await gather(
        read_records(table="tickets", conditions={"state": "open"}),
        git_log(repo_path=repository, max_count=50, start_timestamp="yesterday"),
        git_status(repo_path=repository),
    )
    titles = [f"- {ticket.title}" for ticket in json.loads(tickets)]
    head = f"# {len(titles)} open tickets\n" + "\n".join(titles)
    report = f"{head}\n\n# Since yesterday\n{work}\n\n# Repository\n{state}"
    await write_file(path=f"reports/{today()}.md", content=report)
    return f"reports/{today()}.md: {len(titles)} open tickets."
