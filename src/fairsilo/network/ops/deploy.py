"""Files to run a federation for good: systemd units, a Dockerfile, a compose file.

They come with the working folder and with every silo's folder; whoever installs them looks them
over first. Only the silo's name (letters, digits, '.', '_', '-'), the port and fairsilo's version
are filled in.
"""

from __future__ import annotations

SUPERLINK_HEALTH, SILO_HEALTH = "18480", "18481"
"""The ports of loopback at which the two programs tell how they are: nobody's by custom (9100 is
that of Prometheus' node_exporter), and two, so that both can run on one machine."""

DOCKERFILE = """\
# The fairsilo that this @what@ runs. Build it from this folder: docker compose build
FROM python:3.12-slim
# A wheel of fairsilo that lies in this folder is installed, else the one of the package index:
#   pip wheel --no-deps --wheel-dir . PATH_OF_THE_SOURCE
COPY Dockerfile *.whl /wheels/
RUN pip install --no-cache-dir --find-links /wheels 'fairsilo[@extras@]==@version@' \\
    && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin fairsilo
# The root is read-only: everything that is written goes to the folder that is mounted, or /tmp.
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /@place@
ENTRYPOINT ["fairsilo"]
"""

COMPOSE = """\
# docker compose up -d --build
# The folder above belongs to the user of the container: chown -R 10001:10001 .. (or set
# FAIRSILO_UID and FAIRSILO_GID to the user it belongs to).
services:
  @service@:
    image: fairsilo:@version@
    build: .
    command: @command@
    working_dir: /@place@
    user: "${FAIRSILO_UID:-10001}:${FAIRSILO_GID:-10001}"
    # An init process, which hands signals on and takes up children that lost their parent.
    init: true
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    volumes: ["..:/@place@"]
@more@    restart: unless-stopped
    stop_grace_period: 20s
    healthcheck:
      test: [CMD, python, -c, "import urllib.request as u; u.urlopen('http://127.0.0.1:@health@/health', timeout=5)"]
      interval: 30s
      timeout: 10s
      start_period: 60s
      retries: 3
"""  # noqa: E501

LINK_MORE = """\
    # The gateway alone, for the silos. Control is on loopback inside the container, so all
    # commands that need it are called there:
    # docker compose exec superlink fairsilo flower register
    # docker compose exec superlink fairsilo flower run --out runs/first
    ports: ["@port@:@port@"]
"""

SILO_MORE = """\
    # Before the first start, and whenever the owner decides:
    # docker compose run --rm silo flower check
    # docker compose run --rm silo flower approve
    # For a key with a passphrase, passphrase_file in silo.toml names a secret or a file:
    # environment: [FAIRSILO_KEY_PASSPHRASE]
"""

UNIT = """\
# @file@: copy it to /etc/systemd/system, correct user and paths, then
#   systemctl daemon-reload && systemctl enable --now @unit@
[Unit]
Description=FairSilo: @title@
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User=fairsilo
Group=fairsilo
WorkingDirectory=/srv/fairsilo/@place@
@start@
Restart=always
RestartSec=5
TimeoutStopSec=20
UMask=0077
# Nothing but its own folder can be written.
ProtectSystem=strict
ReadWritePaths=/srv/fairsilo/@place@
ProtectHome=true
PrivateTmp=true
PrivateDevices=true
ProtectClock=true
ProtectControlGroups=true
ProtectHostname=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
NoNewPrivileges=true
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
LockPersonality=true
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""

LINK_START = """\
ExecStart=/opt/fairsilo/bin/fairsilo flower superlink --folder . --health-port @health@"""

SILO_START = """\
# For a key with a passphrase, with passphrase_file = "/run/credentials/@unit@/passphrase" in
# silo.toml:
# LoadCredential=passphrase:/etc/fairsilo/passphrase
ExecStartPre=/opt/fairsilo/bin/fairsilo flower check --settings silo.toml
ExecStart=/opt/fairsilo/bin/fairsilo flower silo --settings silo.toml --health-port @health@"""


def superlink_files(fill: dict[str, str]) -> dict[str, str]:
    """The coordinator's, by name: for the SuperLink with its gateway."""
    port = fill["address"].rpartition(":")[2]
    command = '[flower, superlink, --folder, ., --listen, 0.0.0.0, --health-port, "@health@"]'
    own = {"health": SUPERLINK_HEALTH, "command": command}
    own |= {"what": "coordinator", "place": "federation", "service": "superlink", "port": port}
    own |= {"unit": "fairsilo-superlink.service", "start": LINK_START}
    own |= {"title": "SuperLink and gateway", "more": LINK_MORE}
    return _files({**fill, **own})


def silo_files(fill: dict[str, str]) -> dict[str, str]:
    """A silo's, by name."""
    command = '[flower, silo, --settings, silo.toml, --health-port, "@health@"]'
    own = {"what": "silo", "place": "silo", "service": "silo", "command": command}
    own |= {"health": SILO_HEALTH}
    own |= {"unit": "fairsilo-silo.service", "start": SILO_START, "more": SILO_MORE}
    return _files({**fill, **own, "title": f"silo {fill['silo']}"})


def _files(fill: dict[str, str]) -> dict[str, str]:
    texts = {"Dockerfile": DOCKERFILE, "compose.yaml": COMPOSE, fill["unit"]: UNIT}
    return {name: _filled(text, {**fill, "file": name}) for name, text in texts.items()}


def _filled(text: str, fill: dict[str, str]) -> str:
    # Twice: some of what is filled in has places of its own.
    for _ in range(2):
        for key, value in fill.items():
            text = text.replace(f"@{key}@", value)
    return text
