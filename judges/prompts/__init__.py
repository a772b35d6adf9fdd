"""Prompt templates: what a model is asked, as data, one YAML file a template.

Belongs here: templates, their validation and rendering. Does not: how a model is asked (``engines``), reading its
answer (``parsing``, ``scoring``).
"""

from judges.prompts.template import Template, find, names

__all__ = ["Template", "find", "names"]
