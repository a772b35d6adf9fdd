"""The judges: their specifications, the engines and programs that score, and the pool that runs them."""
