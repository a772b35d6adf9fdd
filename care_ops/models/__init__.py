"""Statistical models of judges and items, fitted to arrays of scores and labels."""
