"""Training over a real network on Flower: silos answer a solver's queries with sums, no more.

    charter    the federation file that all parties agree on, and its fingerprint
    settings   what a silo says of itself: its table, its key, what it refuses
    table      where the rows come from: CSV, Parquet or SQL
    silo       one silo's answer to one question, a flat vector of float64
    numbers    the sums of logistic regression in NumPy, so that a silo starts without JAX
    wire       questions and answers as Flower records
    client     the ClientApp; server: the ServerApp
    post       how questions reach silos and answers come back
    session    set-up, rounds, faults; journal: what --resume reads
    result     the run folder

Importing this package imports none of them: every message starts a process in the silo.
"""
