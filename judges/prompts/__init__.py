"""Prompt templates, which say what a language model is asked; each is one YAML file."""

from judges.prompts.template import Template, find, names

__all__ = ["Template", "find", "names"]
