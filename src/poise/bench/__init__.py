"""Load on a served model, and what it tells."""
