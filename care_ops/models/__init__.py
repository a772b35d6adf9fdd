"""Models of judges and items, each fitted from arrays: what aggregators are made of."""
