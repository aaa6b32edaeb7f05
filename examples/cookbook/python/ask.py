from callsheet import ask_human


async def main():
    city = await ask_human("Which city?", options=["Oslo", "Rome"], timeout="2d", default="Oslo")
    return f"You chose {city}"
