"""`callsheet plan`: the commands that work on plans as texts under review."""
