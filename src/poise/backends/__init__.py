"""What runs models. Each backend is a module of its own, imported in the worker that needs it and nowhere else."""
