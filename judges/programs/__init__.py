"""Program judges, one file each, which ``@program_judge`` registers.

The bytes of a program's file and of ``text`` are part of the judge's key: even a comment that changes there makes every
item be scored again.
"""

from judges.programs.registry import Program, find, names, program_judge

__all__ = ["Program", "find", "names", "program_judge"]
