"""The files of a working folder, as texts with @places@ to fill in."""

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "fairsilo-app"
version = "1.0.0"
description = "Fair federated training: silos answer with sums."
license = "Apache-2.0"
dependencies = ["fairsilo[flower]==@version@"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fairsilo"

[tool.flwr.app.components]
serverapp = "fairsilo_app.server_app:app"
clientapp = "fairsilo_app.client_app:app"

[tool.flwr.app.config]
federation = ""
out = ""
audit = ""
columns = ""
resume = false
baseline = false
start_from = ""
simulation = ""
introduce = false
wait = 60.0
wait_lost = 600.0
timeout = 120.0
"""

APP_INIT = '"""The Flower app of a FairSilo federation."""\n'

CLIENT_APP = '''\
"""Runs in a silo: the code is fairsilo's, as installed there."""

from fairsilo.network.client import app

__all__ = ["app"]
'''

SERVER_APP = '''\
"""Runs beside the SuperLink: the code is fairsilo's, as installed there."""

from fairsilo.network.server import app

__all__ = ["app"]
'''

START_SUPERLINK = """\
#!/bin/sh
# Starts Flower's SuperLink, the meeting point of the silos, on loopback, and at @address@
# the gateway, which lets only the silos' nodes in. Control-C ends both.
set -eu
# Its database holds what the silos sent.
umask 077
cd "$(dirname "$0")"
exec fairsilo flower superlink --folder . "$@"
"""

REGISTER = """\
#!/bin/sh
# Tells the running SuperLink the silos' public keys; a node with another key is refused.
set -eu
cd "$(dirname "$0")"
exec fairsilo flower register --folder .
"""

SILO_SETTINGS = """\
# The settings of silo @silo@. This file stays here: the server neither sees nor sets it.
# Paths count from this file. If it holds a database password, let nobody else read it (chmod 600).
name = "@silo@"
federation = "federation.json"

# The table: a CSV or Parquet file ...
data = "table.csv"
# ... or a database, through SQLAlchemy. A query needs ORDER BY, so that every run sees one order.
# url = "sqlite:////path/to/bank.db"
# query = "select * from loans order by id"

# The private key that `fairsilo flower keygen` made here.
key = "node.key"
# If it has a passphrase, the silo's program asks for it at a terminal. Else it is in the variable
# FAIRSILO_KEY_PASSPHRASE, or in a file that only its owner can read:
# passphrase_file = "/path/to/passphrase"

# Where the coordinator's SuperLink is. Its certificate is checked against ca.pem.
superlink = "@address@"

# Remembers over which silos this silo's counts were opened, so that no later run can subtract its
# way to a single silo's, with which table a training began, so that no other one is mixed in when
# it is resumed, and what was released under differential privacy. It lies beside the
# table, so that every federation in which these rows take part counts in the same file; for a
# database, name one file for all of them. Removing it, or putting an old copy back, forgets.
# ledger = "/path/to/ledger.json"

# Differential privacy: what all runs together may spend of a row's privacy. With a budget the silo
# answers only where the federation file has differential privacy, without only where it has none.
@budget@

# When a run is answered. "listed": once the owner has said yes to its federation file, with
# `fairsilo flower approve`, which shows who asks what and at which price. "ask": the owner says yes
# to every single run, which waits meanwhile. "always": nobody is asked.
approve = "listed"
# "confirmed": nothing is answered until the owner has compared the keys of all other silos with
# them, by a channel that is not the coordinator's, and confirmed them with
# `fairsilo flower confirm`; a coordinator could have put keys of its own into the federation file.
# "any": whatever keys the file has.
members = "confirmed"

# Beside the ledger lies left.jsonl: a line for everything that left this silo, never a value
# (`fairsilo flower left`).

# What this silo refuses.
minimum_rows = 50
minimum_cell = 5
methods = [@methods@]
maximum_answers = @answers@
# The largest score over the declared ranges of the columns that a question may give: beyond it,
# exact sums tell of single rows. Differential privacy does without.
maximum_score = 2000
# How many different models may be audited on one table: those that were trained here, and those
# that `fairsilo flower approve` allows.
maximum_audits = 10
# Audits of another model (`fairsilo flower audit --columns`): the column with the class that it
# predicts, the one with its probability of the protected class (or "CLASS=COLUMN" for each class).
# audit_predictions = "decision"
# audit_probability = ["score"]
# Whether to answer where the federation file has no secure aggregation: the server then sees
# this silo's own sums.
plain = @plain@
"""

WITNESS_SETTINGS = """\
# The settings of witness @silo@, who has no rows: it replays the training from the sums, and signs
# the question that follows. Paths count from this file.
name = "@silo@"
federation = "federation.json"
witness = true

# The private key that `fairsilo flower keygen` made here; see a silo's settings for passphrases.
key = "node.key"

# Where the coordinator's SuperLink is. Its certificate is checked against ca.pem.
superlink = "@address@"

# What it saw of each training: sums over silos, and what it signed.
# witnessed = "/path/to/witnessed"

# When a run is followed: "listed", once its owner has said yes to the federation file with
# `fairsilo flower approve`; "ask", for every single run; "always".
approve = "listed"
"""

START_SILO = """\
#!/bin/sh
# Starts this @role@'s own program: it answers with the fairsilo that is installed here, and never
# runs code that was sent. Control-C ends it. `--health-port 18481` adds GET /health and /metrics.
set -eu
umask 077
cd "$(dirname "$0")"
fairsilo flower check --settings silo.toml
exec fairsilo flower @role@ --settings silo.toml "$@"
"""

SECURE = "Secure aggregation is on: the server sees sums over silos, never one silo's numbers."
PLAIN = (
    "Secure aggregation is OFF: the server sees every silo's own sums (losses, gradients, counts "
    "of its cells), from which it can learn about the silo's rows."
)

NO_WITNESS = (
    "There are no witnesses: nobody checks that the server asks what follows from the silos' sums."
)

PRIVATE = (
    "Every answer about training rows carries noise: a run is (@epsilon@, @delta@)-differentially "
    "private. Each silo counts for itself what it released in all runs, and stops at the budget in "
    "its silo.toml."
)

README = """\
# Federation @name@

Silos: @silos@. SuperLink: @address@.
@privacy@
@witnesses@

Fingerprint of the federation file; every silo compares it with the coordinator by telephone:

    @fingerprint@

## The silos

1. Install fairsilo: `pip install 'fairsilo[@extras@]==@version@'`.
2. `fairsilo flower keygen --out node.key` was run here before; the private key stays here.
3. Take the folder silos/NAME from the coordinator, put node.key into it, name the table in
   silo.toml (or a database and a query), and look over what the silo refuses.
4. `fairsilo flower check --settings silo.toml` says whether the table fits, and the fingerprint. It
   lists every silo's key as words: let each silo read its own to you by telephone, then
   `fairsilo flower confirm NAME`. Until all are confirmed the silo answers nothing.
5. `fairsilo flower approve` shows what a run will ask of the silo, and its price; with the
   fingerprint behind it, it is the owner's yes. Until then the silo's answer is that it waits.
6. `./start-silo.sh` (a witness: `./start-witness.sh`). Later `fairsilo flower left` shows all
   that left.

## The coordinator

1. `./start-superlink.sh` in one terminal.
2. `./register-silos.sh` once, when it says where it is controlled: only these nodes are let in.
3. `fairsilo flower run --folder . --out runs/first` when the silos are up. It leaves the same
   folder as `fairsilo train`. A silo that is lost is waited for; after a crash: the same with
   `--resume`.
4. `fairsilo flower status --folder .` says who is connected and where the run stands,
   `fairsilo flower watch --folder .` shows it on a page for this machine's browser.
5. `fairsilo flower audit --folder . --model runs/first` measures a model anew, with sums only.

## Later

- For good: systemd units, a Dockerfile and a compose file are in deploy/, here and in silos/NAME.
- New rows: `fairsilo flower run --folder . --out runs/second --start-from runs/first`.
- A silo joins or leaves: `fairsilo flower add NAME --key NAME.pub`, `fairsilo flower remove NAME`.
- A new key: `fairsilo flower rotate-key` at the silo, `fairsilo flower accept-key FILE` here.
- At a silo, after every run: `fairsilo flower backup FILE`. It holds the key and the ledger.

## What to know

- A silo runs no code that was sent to it: it answers with the fairsilo that is installed there,
  and refuses any other app. Never start a plain `flower-supernode` with a silo's key: that one
  runs whatever comes.
- At @address@ a gateway answers: only what the silos' nodes need goes through, signed with their
  keys; listing, starting and stopping runs is refused. Let a firewall keep strangers from the
  port all the same.
- Runs are controlled over loopback (control.txt says where), and Flower's open-source build has no
  login: every user of this machine can start a run there. Silos refuse an app that is not
  fairsilo's, but its server's half runs here, beside the SuperLink, with the rights of the
  SuperLink's user. Let nobody else have an account on this machine.
- certificates/ca.key signs server certificates and nothing else: move it off this machine. The
  server's is valid for two years: `fairsilo flower renew --ca-key PATH` signs the next one.
- certificates/server.key and the silos' node.key are readable by their owners only. Keep it so.
- A silo reads its table anew for every answer and refuses to go on if it changed during a run, also
  when the run is resumed. Under differential privacy it goes on, and only its own log says so.
"""
