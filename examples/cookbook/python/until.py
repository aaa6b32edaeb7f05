# most: how often to look
async def main(most: int = 10):
    for look in range(most):
        state = await work()
        if state.percent >= 100:
            return f"Done at {state.percent} percent."
    raise ValueError("it is not done after so many looks")
