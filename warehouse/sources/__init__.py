"""Readers of test sets from users' files and data frames, the Hugging Face hub, and the demo."""
