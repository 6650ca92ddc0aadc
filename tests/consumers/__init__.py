"""Every consumer's own parser reads the output of its profile."""
