"""EO: after any training, equalised odds fitted by every silo on its own rows."""

from functools import partial

from fairsilo.method.base import Method
from fairsilo.method.repair import FITS, repaired, train_and_repair
from fairsilo.predictor.equalized_odds import fit_equalized_odds

NAME, CONDITIONAL = "eo", "eo-conditional"
FITS[NAME] = fit_equalized_odds
FITS[CONDITIONAL] = partial(fit_equalized_odds, variant="conditional")
REPAIR = partial(repaired, fit=NAME)

eo = Method(
    name=NAME,
    title="EO",
    words="Equalised odds: answers of a trained model are changed afterwards until rates agree",
    train=train_and_repair(REPAIR),
    asks=("repair",),
    one_pair=True,
    own_models=True,
    repair=REPAIR,
)
