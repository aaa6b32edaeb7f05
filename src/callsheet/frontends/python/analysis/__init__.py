"""What is known of a function from its text: variables, kinds of values, which objects are shared."""
