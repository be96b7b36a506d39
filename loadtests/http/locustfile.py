"""The traffic mix from locust's closed-loop users, in five scenarios.

    locust -f loadtests/http/locustfile.py --headless --host http://127.0.0.1:8080 --scenario burst

steady   the same number of users all the time
ramp     more of them step by step
burst    a few, then many at once, then few again
reload   steady, and halfway the model is swapped
kill     steady, and halfway a replica is killed

`--halfway` is the command line that does the deed of the last two, such as `budgetrec promote v2 --models models` or
`docker kill deploy-budgetrec-2`. A 503 with Retry-After is an honest refusal and counted by its own name; every other
answer than 200 is a failure, and any failure makes locust's exit code 1.
"""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import gevent
from locust import FastHttpUser, LoadTestShape, events, task

from loadtests.http.traffic import Mix

if TYPE_CHECKING:
    from argparse import ArgumentParser

# Per scenario: (share of the time gone, share of the users) until which the stage lasts.
STAGES = {
    "steady": [(1.0, 1.0)],
    "ramp": [(0.25, 0.25), (0.5, 0.5), (0.75, 0.75), (1.0, 1.0)],
    "burst": [(0.35, 0.1), (0.65, 1.0), (1.0, 0.1)],
    "reload": [(1.0, 1.0)],
    "kill": [(1.0, 1.0)],
}
MIX = Mix()


@events.init_command_line_parser.add_listener
def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--scenario", choices=sorted(STAGES), default="steady", help="Which course the load takes.")
    parser.add_argument("--seconds", type=float, default=30.0, help="How long the scenario lasts.")
    parser.add_argument("--most-users", type=int, default=20, help="Users when the scenario is at its height.")
    parser.add_argument("--pace", type=float, default=20.0, help="Requests per second of each user, thinking included.")
    parser.add_argument("--halfway", default="", help="A command line to run when half of the time is over.")


@events.test_start.add_listener
def _halfway(environment: Any, **_: object) -> None:
    options = environment.parsed_options
    if options.halfway:
        # Standard output belongs to locust's own report.
        gevent.spawn_later(
            options.seconds / 2, subprocess.run, options.halfway, shell=True, check=True, stdout=sys.stderr
        )


class Timetable(LoadTestShape):
    """Number of users over time, as the scenario has it."""

    def tick(self) -> tuple[int, float] | None:
        """Return users and the rate at which to reach them; None ends the run."""
        options = self.runner.environment.parsed_options
        gone = self.get_run_time() / options.seconds
        for until, share in STAGES[options.scenario]:
            if gone < until:
                users = max(1, round(share * options.most_users))
                return users, float(options.most_users)
        return None


class Caller(FastHttpUser):
    """Asks for recommendations at about its pace, with budgets from the mix."""

    network_timeout = 10.0
    connection_timeout = 10.0
    _seeds: ClassVar[int] = 0

    def on_start(self) -> None:
        """Give each user a stream of requests of its own, the same in every run."""
        Caller._seeds += 1
        self._source = random.Random(Caller._seeds)

    def wait_time(self) -> float:
        """Think for a random time; users with a fixed pace, started together, would ask in step ever after."""
        return self._source.expovariate(self.environment.parsed_options.pace)

    @task
    def recommend(self) -> None:
        """Send one request and judge its answer."""
        budget, target = MIX.draw(self._source)
        with self.client.get(target, name=f"budget {budget}", catch_response=True) as answer:
            if answer.status_code == 503 and answer.headers and answer.headers.get("Retry-After"):
                answer.request_meta["name"] = "refused"
                answer.success()
            elif answer.status_code != 200:
                answer.failure(f"status {answer.status_code}")
