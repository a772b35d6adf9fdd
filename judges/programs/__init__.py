"""Program judges: one file a judge, registered by ``@program_judge``.

Belongs here: judges written as Python functions. Does not: judges that need a model.
"""

from judges.programs.registry import Program, find, names, program_judge

__all__ = ["Program", "find", "names", "program_judge"]
