"""The simulated fleet does what arithmetic says where arithmetic is enough, and the same twice."""

import json

import numpy as np
import pytest

from greedy_core._graph import code_stride
from greedy_core.fit.graph import ItemGraph
from greedy_core.shards.item_map import ItemMap
from loadtests.fleet.__main__ import BEGIN, END, MEASURED, Tables, write
from loadtests.fleet.simulation import Fleet, Latencies, simulate
from loadtests.fleet.sizing import Sizing
from loadtests.http.fleet import DEPLOY

SWIFT = Latencies(hop=(1.0,), call=0.0, fixed=0.1, per_product=0.0, front=2.0)
UNEVEN = Latencies(hop=(1.0, 1.0, 1.0, 30.0), call=0.01, fixed=0.1, per_product=0.001, front=2.0)


def test_the_same_seed_is_the_same_run():
    fleet = Fleet(20)
    assert simulate(fleet, UNEVEN, requests=100, seed=3) == simulate(fleet, UNEVEN, requests=100, seed=3)
    assert simulate(fleet, UNEVEN, requests=100, seed=3) != simulate(fleet, UNEVEN, requests=100, seed=4)


def test_one_idle_shard_takes_a_hop_and_a_search():
    found = simulate(Fleet(1, rate=1.0, slow=0.0, hedge=0.0), SWIFT, requests=200)
    assert 2.0 + 1.0 + 0.09 <= found.p50 <= found.p99 <= 2.0 + 1.0 + 0.13
    assert (found.whole, found.answered, found.questions) == (1.0, 1.0, 1.0)


def test_more_shards_wait_for_the_slowest_of_more():
    found = [simulate(Fleet(shards, hedge=0.0, slow=0.0), UNEVEN, requests=200).p50 for shards in (1, 10, 100)]
    assert found[0] < found[1] <= found[2]


def test_hedging_cuts_the_tail_and_costs_questions():
    plain = simulate(Fleet(2, hedge=0.0, slow=0.0), UNEVEN, requests=500)
    hedged = simulate(Fleet(2, hedge=5.0, slow=0.0), UNEVEN, requests=500)
    assert hedged.p50 < plain.p50
    assert hedged.questions > plain.questions == 1.0


def test_a_deadline_leaves_out_what_is_late_and_lost():
    found = simulate(Fleet(10, lost=2, deadline=20.0, hedge=0.0, slow=0.0), SWIFT, requests=100)
    assert found.p99 == pytest.approx(20.0 + 2.0)
    assert found.answered == pytest.approx(0.8)
    assert found.whole == 0.0


def test_replicas_share_the_load():
    busy = [simulate(Fleet(2, replicas=replicas, slow=0.0), SWIFT, requests=500).busy for replicas in (1, 2)]
    assert busy[0] == pytest.approx(2 * busy[1], rel=0.2)


def test_sizes_add_up():
    few, many = Sizing.of(10**9, 10, SWIFT), Sizing.of(10**9, 100, SWIFT)
    assert few.shard_gib > 9 * many.shard_gib
    assert few.total_gib == pytest.approx(few.shard_gib * 10 * 2)
    assert many.core_seconds_per_million > few.core_seconds_per_million


def test_the_map_takes_what_its_arrays_take():
    n_items, dims = 5000, 128
    codes = np.zeros((n_items, code_stride(dims)), dtype=np.uint8)
    graph = ItemGraph(np.zeros((n_items, 48), dtype=np.int32), np.zeros(64, dtype=np.int32), codes, codes, 1.0)
    made = ItemMap(graph, dims, max_budget=4096, guided=False, centre=None)
    sizing = Sizing.of(n_items, 1, SWIFT, dims=dims)
    assert sizing.map_gib * 2**30 == pytest.approx(made.nbytes, rel=0.001)
    assert sizing.shard_gib == pytest.approx(sizing.mapped_gib + sizing.map_gib)


def test_the_runbook_s_tables_are_those_of_the_simulation():
    runbook = (DEPLOY / "README.md").read_text()
    tables = Tables(Latencies.read(MEASURED))
    few = (10,)
    for row in (*tables.sizes(), *tables.tails(few), *tables.deadlines(few), *tables.lost([(10, 1)])):
        assert row in runbook


def test_the_tables_take_the_place_of_the_old_ones(tmp_path):
    runbook = tmp_path / "README.md"
    runbook.write_text(f"before\n\n{BEGIN}\n\n| old |\n\n{END}\n\nbehind\n")
    write(["| one |", "| two |"], runbook)
    assert runbook.read_text() == f"before\n\n{BEGIN}\n\n| one |\n\n| two |\n\n{END}\n\nbehind\n"
    runbook.write_text("no place\n")
    with pytest.raises(ValueError, match="0 places"):
        write(["| one |"], runbook)
    assert runbook.read_text() == "no place\n"


def test_what_was_measured_is_read(tmp_path):
    stored = {"hop_ms": [1, 2], "call_ms": 0.5, "fixed_ms": 0.1, "per_product_ms": 0.01, "front_ms": 3}
    (tmp_path / "latencies.json").write_text(json.dumps(stored))
    assert Latencies.read(tmp_path / "latencies.json") == Latencies((1, 2), 0.5, 0.1, 0.01, 3)
