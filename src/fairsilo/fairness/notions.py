"""The notions of fairness by their names on the command line."""

from fairsilo.fairness.accuracy_parity import ACCURACY_PARITY
from fairsilo.fairness.bounded_loss import BOUNDED_LOSS
from fairsilo.fairness.demographic_parity import DEMOGRAPHIC_PARITY
from fairsilo.fairness.equal_opportunity import EQUAL_OPPORTUNITY as DEFAULT
from fairsilo.fairness.equalized_odds import EQUALIZED_ODDS
from fairsilo.fairness.notion import Notion
from fairsilo.registry import Registry

OWN = (DEFAULT, EQUALIZED_ODDS, DEMOGRAPHIC_PARITY, ACCURACY_PARITY, BOUNDED_LOSS)
NOTIONS: Registry[Notion] = Registry(
    "notion", "fairsilo.notions", {notion.name: notion for notion in OWN}
)

__all__ = ["DEFAULT", "NOTIONS", "Notion"]
