"""The declared vocabularies of ADULT: the values that occur in its complete rows."""

_WORDS = {
    "workclass": "Federal-gov Local-gov Private Self-emp-inc Self-emp-not-inc State-gov "
    "Without-pay",
    "education": "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college "
    "Assoc-voc Assoc-acdm Bachelors Masters Prof-school Doctorate",
    "marital-status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent "
    "Never-married Separated Widowed",
    "occupation": "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing "
    "Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty "
    "Protective-serv Sales Tech-support Transport-moving",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native-country": "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador "
    "England France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India "
    "Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru "
    "Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago "
    "United-States Vietnam Yugoslavia",
}

VOCABULARIES: dict[str, tuple[str, ...]] = {c: tuple(words.split()) for c, words in _WORDS.items()}
"""The values of each categorical column in the publisher's spelling; none has a blank."""
