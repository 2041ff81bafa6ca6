"""Readers of files that others define, without the libraries that wrote them."""
