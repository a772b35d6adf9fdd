"""The command line, ``care``: a file for each group of commands; ``app`` puts them together.

Belongs here: reading arguments and printing. Does not: the work itself.
"""
