"""Prompt templates, which say what a language model is asked; each is one YAML file.

Belongs here: templates, their validation and their rendering. Belongs elsewhere: how a model is asked (``engines``)
and how its answer is read (``parsing``, ``scoring``).
"""

from judges.prompts.template import Template, find, names

__all__ = ["Template", "find", "names"]
