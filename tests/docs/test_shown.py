"""Every command of the documentation is run by a test, or is on the short list of those that
cannot be; those of simulations are run here, on ADULT and on made-up rows."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fairsilo.data import load, make_table
from tests.docs.pages import Step, others, run, shown
from tests.docs.test_commands import FLAG, PAGES, ROOT, is_command
from tests.network.test_day_one import FOLLOWED
from tests.network.test_day_one import lines as followed_lines

NOT_RUN = {
    "*fairsilo data get *": "fetches from publishers",
    "fairsilo compare *": "takes minutes; tests/experiment compares small tables",
    "fairsilo reproduce*": "takes hours; tests/experiment studies a small table",
    "fairsilo sweep --data adult": "takes minutes; the one of own-data.md is run",
    "fairsilo sweep --data $DATA *": "takes an hour; the page's figures come from it",
    "*half-gap*": "needs the page's package installed; test_own.py trains it on every engine",
    "*bilinear*": "needs the page's package installed; test_own.py trains it on every engine",
    "fairsilo train --data loans.csv ... *": "leaves options to the reader",
    "fairsilo flower init * --silo ...": "leaves silos to the reader; operating.md has all",
    "fairsilo flower demo *": "minutes each; test_demo.py runs one with their options on few rows",
    "fairsilo flower run * --simulation": "run by test_demo.py, where Ray is installed",
}
"""Patterns of commands, and why they are not run here; that they exist is tested all the same."""
OTHERS = {
    "make *": "CI is `make test`, which makes the documentation, too",
    "pip install *": "would change this environment; tests/package installs in an empty one",
    "python -m venv *": "the same",
    "pip wheel *": "the same",
    "docker compose *": "there is no Docker here; tests/network/test_deploy.py checks the calls",
    "python -m benchmarks.*": "takes minutes to hours; tests/benchmarks runs them on few rows",
    "python -m fairsilo.experiment.coverage": "takes minutes; tests/experiment has fewer draws",
    "python docs/tools/pictures.py *": "draws from an hour's sweep; the page shows its picture",
    "EPSILONS=*": "belongs to that sweep",
    "for DATA in *": "belongs to that sweep",
    "done": "belongs to that sweep",
}
"""The same of other programs' lines."""
RUN = (
    *("README.md", "docs/audit.md", "docs/concepts/post-processing.md", "docs/groups.md"),
    *("docs/howto/own-data.md", "docs/privacy.md"),
)
"""Pages whose commands are run here, each page's in their order."""
FOLLOWED_SECTIONS = ("Start",)
"""Of operating.md, whose lines of other programs test_day_one.py runs."""
SILO_START = ("./start-silo.sh",)
"""What operating-silo.md shows of them, too."""
SHORTER = {"fairsilo sweep": " --seeds 1 --epsilons 0.05"}
"""What is added where a command would train many times."""


def commands(page: Path) -> list[str]:
    return [line for line in shown(page.read_text()) if is_command(line)]


def excused(line: str) -> bool:
    return any(fnmatch.fnmatch(line, pattern) for pattern in NOT_RUN)


def test_every_command_is_run_or_excused() -> None:
    followed = {f"docs/{name}" for name in FOLLOWED}
    open_ = {
        (str(page.relative_to(ROOT)), line)
        for page in PAGES
        for line in commands(page)
        if str(page.relative_to(ROOT)) not in followed | set(RUN) and not excused(line)
    }
    assert open_ == set()
    every = [line for page in PAGES for line in commands(page)]
    assert [one for one in NOT_RUN if not fnmatch.filter(every, one)] == []


def test_every_line_of_other_programs_is_run_or_excused() -> None:
    """Those of the pages that are followed to the letter run there, but for what needs Docker."""
    ran = {line for title in FOLLOWED_SECTIONS for line in followed_lines(title)}
    every = [(page, line) for page in PAGES for line in others(page.read_text())]
    open_ = [
        (str(page.relative_to(ROOT)), line)
        for page, line in every
        if line not in {*ran, *SILO_START} and not any(fnmatch.fnmatch(line, one) for one in OTHERS)
    ]
    assert open_ == []
    lines = [line for _, line in every]
    assert [one for one in OTHERS if not fnmatch.filter(lines, one)] == []


def test_what_other_programs_are_given_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in (line for page in PAGES for line in others(page.read_text())):
        words = line.split()
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), line
        if words[:2] == ["python", "-m"]:
            found = find_spec(words[2])
            assert found is not None, line
            assert found.origin is not None
            home = Path(found.origin)
            if home.name == "__init__.py":
                home = home.with_name("__main__.py")
            source = home.read_text() if words[2] != "venv" else ""
            assert [flag for flag in FLAG.findall(line) if f'"{flag}"' not in source] == [], line
        if words[0] == "python" and words[1].endswith(".py"):
            assert (ROOT / words[1]).is_file(), line


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the pages take as given."""
    folder = tmp_path_factory.mktemp("shown")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        rows = make_table(600, silos=3, bias=1.0)
        rows = rows.rename(columns={"client": "bank", "group": "sex", "label": "income"})
        for column, words in (("sex", ("Female", "Male")), ("income", ("<=50K", ">50K"))):
            codes = sorted(set(rows[column]))
            rows[column] = rows[column].map(dict(zip(codes, words, strict=True)))
        rows["part"] = ["test" if k % 4 == 0 else "train" for k in range(len(rows))]
        rows["decision"], rows["score"] = rows["income"].shift(1, fill_value="<=50K"), 0.5
        for name in ("loans", "new"):
            rows.to_csv(f"{name}.csv", index=False)
        for name in ("january", "february"):
            load("adult").head(400).to_csv(f"{name}.csv", index=False)
        say("fairsilo train --data adult --epsilon 0.1 --out runs/adult")
        say(
            "fairsilo train --data loans.csv --label income --group sex --protected-class '>50K' "
            "--client bank --split part --out runs/loans-2"
        )
        yield folder


def say(line: str) -> str:
    printed = run(Step("console", line, None), {})
    assert not printed.startswith("fairsilo: "), f"{line}\n{printed}"
    return printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")
@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run(place: Path, page: str) -> None:
    lines = [line for line in commands(ROOT / page) if not excused(line)]
    assert lines
    for line in lines:
        say(line + next((more for begin, more in SHORTER.items() if line.startswith(begin)), ""))
