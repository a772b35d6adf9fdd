"""Sources of test sets: users' files (``files``), the Hugging Face hub (``huggingface``) and the demo (``demo``)."""
