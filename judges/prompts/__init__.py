"""Prompt templates of language models, each in one YAML file."""

from judges.prompts.template import Template, find, names

__all__ = ["Template", "find", "names"]
