"""Shards are scaled by the inner products in flight, within Serve's bounds."""

import pytest

pytestmark = [
    pytest.mark.needs_packages("ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]


@pytest.mark.parametrize(
    ("in_flight", "wanted"),
    [({}, 2), ({"a": 0.0, "b": 0.0}, 2), ({"a": 4096.0, "b": 8000.0}, 3), ({"a": 1e6}, 8)],
)
def test_replicas_for_the_products_in_flight(in_flight, wanted):
    from ray.serve.config import AutoscalingContext  # noqa: PLC0415

    from service.cluster.scaling import replicas_for  # noqa: PLC0415

    context = AutoscalingContext(
        deployment_id=None,
        deployment_name="shard-0",
        app_name="budgetrec",
        current_num_replicas=2,
        target_num_replicas=2,
        running_replicas=[],
        total_num_requests=0.0,
        total_queued_requests=0.0,
        aggregated_metrics={"products": in_flight},
        raw_metrics={},
        capacity_adjusted_min_replicas=2,
        capacity_adjusted_max_replicas=8,
        policy_state={},
        last_scale_up_time=None,
        last_scale_down_time=None,
        current_time=0.0,
        config=None,
    )
    assert replicas_for(context)[0] == wanted
