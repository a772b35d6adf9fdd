"""Tests that tests with a shared module fixture run in one process, because each process builds the fixture again."""

import pytest


@pytest.fixture(scope="module")
def made_for_the_module() -> str:
    return "made"


def test_where_groups_are_asked_for_a_module_s_tests_are_one(made_for_the_module, request):
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("run with `--dist loadgroup -n 2`, as `make test` does, to see how tests are shared out")
    assert "@" in request.node.nodeid, "the runner of tests in several processes has not read the group"
