"""A proxy that stands between silos and SuperLink, ends their TLS and keeps what silos send."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fairsilo.flower.certificates import CA, SERVER, SERVER_KEY
from fairsilo.flower.workspace import Workspace


class Proxy:
    """Speaks with the server's own certificate, which the coordinator could always do."""

    def __init__(self, space: Workspace) -> None:
        host, _, port = space.address.rpartition(":")
        self.upstream = (host, int(port))
        self.towards_silos = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.towards_silos.load_cert_chain(
            space.certificates / SERVER, space.certificates / SERVER_KEY
        )
        self.towards_server = ssl.create_default_context(cafile=str(space.certificates / CA))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.kept: list[bytearray] = []
        """What came from the silos, one for each connection."""

    def received(self) -> bytes:
        """All that the silos sent since the last `forget`."""
        return b"\xff".join(map(bytes, list(self.kept)))

    def forget(self) -> None:
        """Begin a new recording; connections that are open go on in it."""
        for kept in list(self.kept):
            kept.clear()

    def serve(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(plain,), daemon=True).start()

    def _connect(self, plain: socket.socket) -> None:
        # Either side may be gone at any time, and the SuperLink is, where a test kills it.
        with (
            contextlib.suppress(OSError),
            plain,
            self.towards_silos.wrap_socket(plain, server_side=True) as silo,
            socket.create_connection(self.upstream) as raw,
            self.towards_server.wrap_socket(raw, server_hostname=self.upstream[0]) as server,
        ):
            kept = bytearray()
            self.kept.append(kept)
            back = threading.Thread(target=_pump, args=(server, silo, None), daemon=True)
            back.start()
            _pump(silo, server, kept)
            back.join()


def _pump(source: ssl.SSLSocket, sink: ssl.SSLSocket, kept: bytearray | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(2**16):
            if kept is not None:
                kept += data
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def recording(space: Workspace) -> Iterator[Proxy]:
    """A proxy that runs inside the block."""
    proxy = Proxy(space)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        with contextlib.suppress(OSError):
            proxy.listener.shutdown(socket.SHUT_RDWR)
        proxy.listener.close()


def share_found(values: npt.NDArray[np.float64], data: bytes) -> float:
    """Which share of the numbers occurs in the bytes, as float64 at any offset or as text.

    Numbers with fewer than three bytes that are not zero are left out (0, 1, 256 and so on): a
    run of zeros in any frame of the protocol looks like them.
    """
    parts = np.ascontiguousarray(values, "<f8").view(np.uint8).reshape(-1, 8)
    looked_for = np.unique(values[np.count_nonzero(parts, axis=1) >= 3])
    words = [np.frombuffer(data[k : k + (len(data) - k) // 8 * 8], "<u8") for k in range(8)]
    as_bits = np.isin(looked_for.view(np.uint64), np.concatenate(words))
    texts = [repr(float(v)).encode() in data for v in looked_for[:: max(len(looked_for) // 50, 1)]]
    return max(float(as_bits.mean()), float(np.mean(texts)))
