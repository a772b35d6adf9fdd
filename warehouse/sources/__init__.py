"""Readers of test sets from users' files, the Hugging Face hub and the demo."""
