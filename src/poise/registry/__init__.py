"""Which versions of which models exist, and which of them are served."""
