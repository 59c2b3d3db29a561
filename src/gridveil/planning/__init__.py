"""Before a release: trials on a public surrogate, and the least epsilon that meets targets."""
