"""From scores to estimates: the panel, its moments, its structure, and every aggregator."""
