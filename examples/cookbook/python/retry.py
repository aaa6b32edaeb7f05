async def main():
    for attempt in range(4):
        try:
            page = await flaky()
            break
        except ToolError:
            if attempt == 3:
                raise
    try:
        found = await stock(id=2)
    except ToolError as error:
        return f"No stock today: {error}"
    return f"{page}, {found.pieces} pieces"
