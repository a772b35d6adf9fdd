"""Sources of test sets: files that people have (``files``) and the embedded demo (``demo``)."""
