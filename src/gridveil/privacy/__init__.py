"""What a release promises: exact ε, adjacency, guarantee, ledger."""
