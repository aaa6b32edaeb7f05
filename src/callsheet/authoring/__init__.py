"""From a goal to the text of a plan: the prompt, the model's answer, the plan in it."""
