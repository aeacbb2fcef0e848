"""FedJAX: its federated averaging, compiled client steps, one full batch each."""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from serve import Run, serve

from benchmarks.workload import Workload, flat


def scores(layers, x):  # noqa: ANN001, ANN201
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return (x @ weight + bias)[:, 0]


def loss(layers, batch):  # noqa: ANN001, ANN201
    z, y = scores(layers, batch["x"]), batch["y"]
    return jnp.mean(jax.nn.softplus(z) - y * z)


def prepare(work: Workload) -> Run:
    clients = [
        (
            str(i),
            fedjax.ClientDataset({"x": work.x[rows], "y": work.y[rows].astype(np.float32)}),
            jax.random.PRNGKey(i),
        )
        for i, rows in enumerate(work.clients)
    ]
    biggest = int(np.diff(work.offsets).max())
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        lambda params, batch, _: jax.grad(loss)(params, batch),
        client_optimizer=fedjax.optimizers.sgd(work.alpha),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(batch_size=biggest, num_epochs=1),
    )

    def one(start: np.ndarray, rounds: int) -> np.ndarray:
        layers = [(jnp.float32(w), jnp.float32(b)) for w, b in work.layers(start)]
        state = algorithm.init(layers)
        for _ in range(rounds):
            state, _ = algorithm.apply(state, clients)
        return flat(jax.tree_util.tree_map(np.asarray, state.params))

    return lambda rounds, settings: np.stack([one(s, rounds) for s in work.starts[:settings]])


if __name__ == "__main__":
    serve(prepare)
