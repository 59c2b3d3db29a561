"""For the owner alone: attacks on a release, compared with the truth."""
