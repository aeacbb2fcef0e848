"""Export of models to other programs."""
