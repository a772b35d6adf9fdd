"""Sources of test sets: files of users (``files``), the Hugging Face hub (``huggingface``) and the demo (``demo``)."""
