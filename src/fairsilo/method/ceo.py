"""CEO: after any training, calibrated equalised odds fitted by every silo on its own rows."""

from functools import partial

from fairsilo.method.base import Method
from fairsilo.method.repair import FITS, repaired, train_and_repair
from fairsilo.predictor.calibrated import fit_calibrated

NAME = "ceo"
FITS[NAME] = fit_calibrated
REPAIR = partial(repaired, fit=NAME)

ceo = Method(
    name=NAME,
    title="CEO",
    words="Calibrated equalised odds: answers are withheld afterwards until rates agree",
    train=train_and_repair(REPAIR),
    asks=("repair",),
    one_pair=True,
    own_models=True,
    repair=REPAIR,
)
