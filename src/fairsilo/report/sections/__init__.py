"""The sections of the page of a single run, in their order on the page."""
