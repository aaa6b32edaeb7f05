"""LCTL documents for people: the chain as a flowchart, facts with what they are worth, differences."""
