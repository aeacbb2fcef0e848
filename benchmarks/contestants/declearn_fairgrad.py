"""DecLearn's Fed-FairGrad: equality of opportunity by weights on groups, over websockets.

    python declearn_fairgrad.py DATA.npz ROUNDS RATE ETA PORT      prints one line of JSON

Server and clients run in one process and one event loop, as in DecLearn's own quick start. The
output has the model after every round, and the costs of the rounds so far.
"""

import asyncio
import json
import logging
import sys
import time
import warnings

import numpy as np
import torch
from declearn.communication import NetworkClientConfig, NetworkServerConfig
from declearn.communication.api import NetworkClient
from declearn.fairness.core import FairnessInMemoryDataset
from declearn.fairness.fairgrad import FairgradControllerServer
from declearn.main import FederatedClient, FederatedServer
from declearn.main.config import FLOptimConfig, FLRunConfig
from declearn.model.torch import TorchModel
from declearn.utils import set_device_policy

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
SENT = [0]
send = NetworkClient.send_message


async def counted(self, message):  # noqa: ANN001, ANN201
    SENT[0] += len(message.serialize())
    await send(self, message)


class Told(FederatedServer):
    """A server that records the model, bytes and CPU seconds so far after every round."""

    def begin(self, network: torch.nn.Module) -> None:
        self.network, self.rounds, self.began = network, [], time.process_time()

    async def training_round(self, *args, **more) -> None:  # noqa: ANN002, ANN003
        await super().training_round(*args, **more)
        weight, bias = (p.detach().numpy().ravel() for p in self.network.parameters())
        theta = [*map(float, weight), float(bias[0])]
        spent = time.process_time() - self.began
        self.rounds.append({"theta": theta, "bytes": SENT[0], "cpu": spent})


def main(path: str, rounds: int, rate: float, eta: float, port: int) -> None:
    NetworkClient.send_message = counted
    data = np.load(path)
    x, y, s, offsets = (data[name] for name in ("x", "y", "s", "offsets"))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    set_device_policy(gpu=False)
    network = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 1), torch.nn.Flatten(0))
    model = TorchModel(network, torch.nn.BCEWithLogitsLoss())
    optim = FLOptimConfig.from_params(
        aggregator="sum",
        client_opt=rate,
        server_opt=1.0,
        fairness=FairgradControllerServer(
            "equality_of_opportunity", f_args={"target": 1}, eta=eta, eps=0.0
        ),
    )
    count = len(offsets) - 1
    config = FLRunConfig.from_params(
        rounds=rounds,
        register={"min_clients": count, "max_clients": count, "timeout": 120},
        training={"batch_size": 64, "n_epoch": 1},
        evaluate={"batch_size": 100_000, "frequency": 10 * rounds},
        fairness={"batch_size": 100_000},
    )
    # The server's polling interval; its default, one second, would dominate the time.
    netwk = NetworkServerConfig.from_params(
        protocol="websockets", host="127.0.0.1", port=port, heartbeat=0.05
    )
    server = Told(model, netwk, optim)
    server.begin(network)

    async def client(i: int) -> None:
        part = slice(offsets[i], offsets[i + 1])
        rows = FairnessInMemoryDataset(
            x[part].astype(np.float32),
            s_attr=s[part, None],
            target=y[part].astype(np.float32),
            expose_classes=True,
            seed=i,
        )
        to = NetworkClientConfig.from_params(
            protocol="websockets", server_uri=f"ws://127.0.0.1:{port}", name=f"silo{i}"
        )
        await FederatedClient(to, rows, verbose=False, share_metrics=True).async_run()

    async def all_of_them() -> None:
        await asyncio.gather(server.async_run(config), *(client(i) for i in range(count)))

    asyncio.run(all_of_them())
    for told in server.rounds:
        told["bytes"] /= count
    print("RESULT " + json.dumps(server.rounds))


if __name__ == "__main__":
    path, rounds, *numbers, port = sys.argv[1:]
    main(path, int(rounds), *map(float, numbers), int(port))
