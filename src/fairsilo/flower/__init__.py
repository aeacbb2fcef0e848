"""Training over a real network on Flower: silos answer a solver's queries with sums, no more.

    charter    the federation file that all parties agree on, and its fingerprint
    settings   what a silo says of itself: its table, its key, what it refuses
    table      where the rows come from: CSV, Parquet or SQL
    silo       one silo's answer to one question; vectors: what its numbers stand for
    numbers    the sums of logistic regression in NumPy, so that a silo starts without JAX
    wire       questions and answers as Flower records
    client     the ClientApp; server: the ServerApp
    post       how questions reach silos and answers come back
    gather     sums in the clear; masked and secure: behind masks, in the silo and at the server
    session    set-up, rounds, faults; journal: what --resume reads
    agnostic_* AF, local_* LCO: what differs in the silo and in the session
    result     the run folder; audit: a model measured anew
    workspace  the coordinator's folder (texts, keys, certificates, draft); check: at the silo
    launch     Flower's commands; processes: children that end; demo: all of it on loopback
    program    a silo's own program: node, Flower's SuperNode, and worker, which answers
    superlink  the coordinator's: link, Flower's SuperLink, on loopback, and gateway at the address
    runtime    what a SuperNode received, claimed and answered; bundle: the app that it must be
    internals  what is relied upon inside Flower; pace: waits; parent: children that end with it

Importing this package imports none of them, so that each process starts with what it needs.
"""
