"""pfl-research: its simulated backend, federated averaging with one full-batch local step."""

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from serve import Run, serve
from torch_loop import network, theta_of

from benchmarks.workload import Workload


class Module(torch.nn.Module):
    """A network with the methods that pfl needs: loss and metrics."""

    def __init__(self, inner: torch.nn.Sequential) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, x, y, eval=False):  # noqa: ANN001, ANN201
        return torch.nn.functional.binary_cross_entropy_with_logits(self.inner(x), y)

    def metrics(self, x, y, eval=False):  # noqa: ANN001, ANN201
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def prepare(work: Workload) -> Run:
    users = {
        i: Dataset(
            raw_data=[
                torch.tensor(work.x[rows]),
                torch.tensor(work.y[rows, None], dtype=torch.float32),
            ]
        )
        for i, rows in enumerate(work.clients)
    }

    def one(start: np.ndarray, rounds: int) -> np.ndarray:
        sampler = get_user_sampler("minimize_reuse", list(users))
        data = FederatedDataset(users.__getitem__, sampler)
        module = Module(network(work, start))
        model = PyTorchModel(
            module,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        )
        FederatedAveraging().run(
            algorithm_params=NNAlgorithmParams(
                central_num_iterations=rounds,
                evaluation_frequency=10 * rounds,
                train_cohort_size=len(users),
                val_cohort_size=None,
            ),
            backend=SimulatedBackend(training_data=data, val_data=None),
            model=model,
            model_train_params=NNTrainHyperParams(
                local_num_epochs=1, local_learning_rate=work.alpha, local_batch_size=None
            ),
            model_eval_params=NNEvalHyperParams(local_batch_size=None),
            callbacks=[],
        )
        return theta_of(module.inner)

    return lambda rounds, settings: np.stack([one(s, rounds) for s in work.starts[:settings]])


if __name__ == "__main__":
    serve(prepare)
