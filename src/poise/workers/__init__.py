"""Workers: what runs in them (`child`, `loop`), and who starts and ends them (`supervisor`)."""
