"""Against a release: attacks, what public records give away, coarser records."""
