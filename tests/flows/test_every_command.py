"""The slow tests of hostile repositories and planted workspaces leave no command untried."""

from tests.flows import test_hostile_repository as hostile
from tests.flows import test_planted_workspace as planted
from tests.flows.every_command import COMMANDS


def test_every_command_is_tried_on_a_hostile_repository_or_shows_no_text_of_it() -> None:
    tried = {*hostile.TRIED, *hostile.ON_TERMINAL, *hostile.SERVED}
    assert COMMANDS.keys() == tried | hostile.NO_TEXT.keys()
    assert not tried & hostile.NO_TEXT.keys()


def test_every_command_is_tried_in_a_planted_workspace() -> None:
    assert planted.CALLS.keys() == COMMANDS.keys()
