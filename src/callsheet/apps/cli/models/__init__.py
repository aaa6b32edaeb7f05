"""The commands of `callsheet models`: model files on this machine."""
