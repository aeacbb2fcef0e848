"""A proxy between silos and SuperLink that terminates TLS and records what silos send."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fairsilo.network.ops.certificates import CA, SERVER, SERVER_KEY
from fairsilo.network.ops.workspace import Workspace


class Proxy:
    """Uses the server's own certificate, as a dishonest coordinator could."""

    def __init__(self, space: Workspace) -> None:
        self.upstream = space.address.rpartition(":")
        self.towards_silos = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.towards_silos.load_cert_chain(
            space.certificates / SERVER, space.certificates / SERVER_KEY
        )
        self.towards_server = ssl.create_default_context(cafile=str(space.certificates / CA))
        for context in (self.towards_silos, self.towards_server):
            context.set_alpn_protocols(["h2"])
        self.address = ""
        self.kept: list[bytearray] = []
        """The bytes from the silos, by connection."""

    def received(self) -> bytes:
        """All that the silos sent."""
        return b"\xff".join(map(bytes, list(self.kept)))

    async def serve(self, listening: threading.Event) -> None:
        """Take connections until cancelled."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0, ssl=self.towards_silos)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        listening.set()
        await server.serve_forever()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.upstream
        # Either side may close at any time; some tests kill the SuperLink.
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            server = await asyncio.open_connection(host, int(port), ssl=self.towards_server)
            kept = bytearray()
            self.kept.append(kept)
            with contextlib.closing(server[1]):
                there, back = _pump(reader, server[1], kept), _pump(server[0], writer, None)
                ways = [asyncio.ensure_future(way) for way in (there, back)]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray | None
) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(2**16):
            if kept is not None:
                kept += data
            sink.write(data)
            await sink.drain()


@contextlib.contextmanager
def recording(space: Workspace) -> Iterator[Proxy]:
    """A proxy that runs inside the block."""
    proxy, loop, listening = Proxy(space), asyncio.new_event_loop(), threading.Event()
    loop.set_exception_handler(lambda *_: None)
    task = loop.create_task(proxy.serve(listening))

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert listening.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)


def share_found(values: npt.NDArray[np.float64], data: bytes) -> float:
    """The share of the numbers that occurs in the bytes, as float64 at any offset or as text.

    Numbers with fewer than three nonzero bytes (0, 1, 256 and so on) are ignored: they look like
    runs of zeros, which occur in any frame of the protocol.
    """
    parts = np.ascontiguousarray(values, "<f8").view(np.uint8).reshape(-1, 8)
    looked_for = np.unique(values[np.count_nonzero(parts, axis=1) >= 3])
    words = [np.frombuffer(data[k : k + (len(data) - k) // 8 * 8], "<u8") for k in range(8)]
    as_bits = np.isin(looked_for.view(np.uint64), np.concatenate(words))
    texts = [repr(float(v)).encode() in data for v in looked_for[:: max(len(looked_for) // 50, 1)]]
    return max(float(as_bits.mean()), float(np.mean(texts)))
