"""The command line, ``care``: a file for each group of commands; ``app`` puts them together."""
