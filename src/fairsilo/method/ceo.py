"""CEO: after any training, calibrated equalised odds fitted by every silo on its own rows."""

from fairsilo.method.base import Method
from fairsilo.method.repair import FITS, train_and_repair
from fairsilo.predictor.calibrated import fit_calibrated

NAME = "ceo"
FITS[NAME] = fit_calibrated

ceo = Method(
    name=NAME,
    title="CEO",
    words="Calibrated equalised odds: answers are withheld afterwards until rates agree",
    train=train_and_repair(NAME),
    asks=("repair",),
    one_pair=True,
    own_models=True,
    fit=fit_calibrated,
)
