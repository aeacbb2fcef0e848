"""Training over a real network on Flower: silos answer a solver's queries with sums, no more.

    federation file    the federation file that all parties agree on, and its fingerprint
    settings   what a silo says of itself: its table, its key, what it refuses
    table      where the rows come from: CSV, Parquet or SQL
    silo       whether a silo answers a question, and from which rows (rows, own_models, ledger)
    wire       questions and answers as Flower records
    client     the ClientApp; server: the ServerApp
    post       how questions reach silos and answers come back
    gather     sums in the clear; masked and secure: behind masks, in the silo and at the server
    engine     questions over the network, faults, private_engine with noise; journal: for `resume`
    train      a training from its set-up to its run; audit: a model measured anew, foreign: any
    workspace  the coordinator's folder (texts, keys, certificates, draft); check: at the silo
    launch     SuperLink and silos started; processes: children that end; demo: all on loopback
    follow     a run from its start to its end; runs: told to the SuperLink (control)
    program    a silo's own program: node, Flower's SuperNode, and worker, which answers
    superlink  the coordinator's: link, Flower's SuperLink, on loopback, and gateway at the address
    runtime    what a SuperNode received, claimed and answered; bundle: the app that it must be
    internals  what is relied upon inside Flower; layers: of its servers, made thin;
               whole: messages with their parts; pace: waits; wake: and no waits;
               parent: children that end with it

Importing this package imports none of them, so that each process starts with what it needs.
"""
