"""Readers of test sets: users' files and frames, the Hugging Face hub, and the demo."""
