"""The command line: ``care``. One file a subject; ``app`` puts them together.

Belongs here: reading arguments, printing. Does not: the work itself.
"""
