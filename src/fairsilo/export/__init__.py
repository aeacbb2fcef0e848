"""Models for other programs."""
