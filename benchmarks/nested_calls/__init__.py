"""Gold sequences of nested tool calls as plans: do they convert, and do they give the gold answer?"""
