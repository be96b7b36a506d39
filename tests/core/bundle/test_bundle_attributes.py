"""Attributes in a bundle: stored, mapped, covered by checksums, checked against the items."""

import json
from pathlib import Path

import numpy as np
import pytest

from greedy_core import (
    Attributes,
    Bundle,
    CorruptModelError,
    Filter,
    InvalidEmbeddingsError,
    InvalidFilterError,
    build_bundle,
    read_manifest,
)
from greedy_core.bundle.opening import KIND
from greedy_core.bundle.storage import open_arrays, write_arrays

N_ITEMS = 40
COLUMNS = {
    "price": [None if j % 5 == 0 else j / 2 for j in range(N_ITEMS)],
    "tags": [["even" if j % 2 == 0 else "odd"] for j in range(N_ITEMS)],
    "category": [f"c{j % 3}" for j in range(N_ITEMS)],
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    items = np.random.default_rng(0).standard_normal((N_ITEMS, 8)).astype(np.float32)
    attributes = Attributes.from_columns(COLUMNS, N_ITEMS)
    return build_bundle(tmp_path_factory.mktemp("model") / "v1", items=items, attributes=attributes)


def test_attributes_come_back_mapped(bundle):
    opened = Bundle.open(bundle.path)
    opened.verify()
    assert opened.attributes.names == tuple(COLUMNS)
    for j in range(N_ITEMS):
        assert opened.attributes.values(j, opened.attributes.names) == {
            name: values[j] for name, values in COLUMNS.items()
        }
    codes = opened.attributes["price"].codes
    assert not codes.flags.writeable
    assert not codes.flags.owndata
    assert {name for name in read_manifest(bundle.path).files if name.startswith("attributes.")} >= {
        "attributes.0.codes",
        "attributes.0.values",
        "attributes.1.items",
        "attributes.2.values.text",
    }


def test_a_bundle_filters(bundle):
    eligible = bundle.filter('price < 10 and tags contains "odd"')
    assert np.flatnonzero(eligible.mask()).tolist() == [j for j in range(1, 20, 2) if j % 5]
    assert bundle.filter("price is missing").count == N_ITEMS // 5
    with pytest.raises(InvalidFilterError, match="there is no attribute 'colour'"):
        bundle.filter('colour = "red"')


def test_an_altered_attribute_is_found(bundle, tmp_path):
    stored = open_arrays(bundle.path, kind=KIND)
    arrays = dict(stored.arrays)
    arrays["attributes.2.codes"] = arrays["attributes.2.codes"] + np.uint8(1)
    write_arrays(tmp_path / "outside", kind=KIND, arrays=arrays, info=stored.info)
    with pytest.raises(CorruptModelError, match="the attribute 'category' has a code 4 for 3 values"):
        Bundle.open(tmp_path / "outside")
    arrays = dict(stored.arrays)
    del arrays["attributes.0.values"]
    info = stored.info | {"arrays": sorted(arrays)}
    write_arrays(tmp_path / "less", kind=KIND, arrays=arrays, info=info)
    with pytest.raises(CorruptModelError, match="a part is missing"):
        Bundle.open(tmp_path / "less")
    write_arrays(tmp_path / "unnamed", kind=KIND, arrays=stored.arrays, info=stored.info | {"attributes": []})
    with pytest.raises(CorruptModelError, match="its attributes are not those that it names"):
        Bundle.open(tmp_path / "unnamed")
    for described in (5, None, [5], [{"name": "price"}], {"price": "number"}):
        path = tmp_path / f"odd-{json.dumps(described)}"
        write_arrays(path, kind=KIND, arrays=stored.arrays, info=stored.info | {"attributes": described})
        with pytest.raises(CorruptModelError):
            Bundle.open(path)


def test_checksums_cover_attributes(bundle, tmp_path):
    stored = open_arrays(bundle.path, kind=KIND)
    write_arrays(tmp_path / "copy", kind=KIND, arrays=stored.arrays, info=stored.info)
    victim = tmp_path / "copy" / "attributes.0.values.npy"
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    with pytest.raises(CorruptModelError, match=r"attributes\.0\.values\.npy was altered"):
        Bundle.open(tmp_path / "copy").verify()


def test_there_are_as_many_rows_as_items(tmp_path):
    items = np.ones((3, 2), dtype=np.float32)
    with pytest.raises(InvalidEmbeddingsError, match="there are 2 rows of attributes for 3 items"):
        build_bundle(tmp_path / "v1", items=items, attributes=Attributes.from_columns({"a": [1, 2]}, 2))


def test_a_bundle_of_an_earlier_release_has_none():
    golden = Bundle.open(Path(__file__).parents[1] / "golden" / "bundle-v1")
    assert golden.attributes.names == ()
    with pytest.raises(InvalidFilterError, match="the model has none at all"):
        golden.filter("price < 20")
    with pytest.raises(InvalidFilterError, match="the model has none at all"):
        Filter("in_stock").check(golden.attributes)
