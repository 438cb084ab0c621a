"""What `curriculum serve` runs: a server, workers, pages; each a process that is watched and ended."""
