"""The terminal debugger: steps through a recorded run with the keyboard."""
