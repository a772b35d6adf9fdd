"""The command line, ``care``: a file for each group of commands; ``app`` puts them together.

Belongs here: reading arguments and printing. Belongs elsewhere: the work itself.
"""
