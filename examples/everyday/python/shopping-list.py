# recipes: files
async def main(recipes: list[str]):
    """Write one shopping list for several recipes, whose lines are like "- 200 g flour\""""
    by_recipe = []
    for recipe in recipes:
        text = await read_file(path=recipe)
        by_recipe.append(
            [line.removeprefix("- ").split(" ", 2) for line in text.splitlines() if line.startswith("- ")]
        )
    items = [
        {"amount": float(item[0]), "name": " ".join(item[1:])} for recipe in by_recipe for item in recipe
    ]
    names = sorted({item.name for item in items})
    lines = [f"- {sum([item.amount for item in items if item.name == name]):g} {name}" for name in names]
    await write_file(path="shopping.md", content="\n".join(lines))
    return f"shopping.md has {len(names)} things from {len(recipes)} recipes."
