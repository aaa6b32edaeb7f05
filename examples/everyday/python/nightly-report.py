from callsheet import gather, today


async def main(repository: str = "."):
    """Write the report of the night: open tickets, work since yesterday, the state of the repository"""
    tickets, work, state = await gather(
        read_records(table="tickets", conditions={"state": "open"}),
        git_log(repo_path=repository, max_count=50, start_timestamp="yesterday"),
        git_status(repo_path=repository),
    )
    titles = [f"- {ticket['title']}" for ticket in tickets]
    await write_file(
        path=f"reports/{today()}.md",
        content=f"""# {len(tickets)} open tickets\n{
            '''
'''.join(titles)
        }\n\n# Since yesterday\n{work}\n\n# Repository\n{state}""",
    )
    return f"reports/{today()}.md: {len(tickets)} open tickets."
