"""The paper's experiments: compare, sweep, reproduce, and its theorems."""
