"""What requests carry: made up by signature, from files, or replayed."""
