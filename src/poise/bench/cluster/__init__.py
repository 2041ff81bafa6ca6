"""Load from several machines: each measures on its own, and their samples are put together."""
