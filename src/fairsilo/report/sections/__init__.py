"""The sections of the page of a single run, in the order in which a reader meets them."""
