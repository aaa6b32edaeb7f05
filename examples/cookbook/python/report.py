async def main():
    rows = [f"| {o.id} | {o.city} | {o.total:.2f} |" for o in await orders()]
    head = ["# Orders", "", "| id | city | total |", "|---|---|---|"]
    await write_file(path="report.md", content="\n".join([*head, *rows]))
    return "report.md"
