"""A picture is a projection: distances shrink, shares add up, the same rows in every state."""

import numpy as np
import pytest

from theodolite.core.pictures import draw_picture, read_picture, write_picture


@pytest.fixture
def X():  # noqa: N802
    rng = np.random.default_rng(0)
    return (rng.standard_normal((400, 20)) * np.linspace(5, 0.1, 20) + 3).astype(np.float32)


def test_the_axes_are_the_principal_directions(X):
    shown = draw_picture(X, points=400)
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    assert shown.explained == pytest.approx((values / values.sum())[:3], rel=1e-5)
    assert np.var(shown.points, axis=0) * 400 == pytest.approx(values[:3], rel=1e-4)
    assert shown.points.mean(axis=0) == pytest.approx(0, abs=1e-4)


def test_distances_never_grow(X):
    shown = draw_picture(X, points=50)
    flat = np.linalg.norm(shown.points[:, None] - shown.points[None], axis=-1)
    full = np.linalg.norm(X[shown.rows][:, None] - X[shown.rows][None], axis=-1)
    assert (flat <= full + 1e-3).all()


def test_two_states_show_the_same_rows_with_what_is_known_of_them(X):
    names = [f"row {i}" for i in range(len(X))]
    one, two = (draw_picture(cloud, columns={"token": names}, points=30, seed=4) for cloud in (X, X[:, ::-1] ** 2))
    assert one.rows.tolist() == two.rows.tolist()
    assert list(one.columns["token"]) == [names[i] for i in one.rows]


def test_a_turned_cloud_gives_the_same_picture_up_to_signs(X):
    turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 20)))
    before, after = draw_picture(X, points=40), draw_picture(X @ turn, points=40)
    assert np.abs(after.points) == pytest.approx(np.abs(before.points), abs=2e-3)


def test_a_flat_cloud_has_zeros_on_the_directions_it_lacks():
    shown = draw_picture(np.arange(12.0).reshape(6, 2))
    assert shown.points.shape == (6, 3)
    assert not shown.points[:, 2].any()
    assert draw_picture(np.ones((5, 4))).explained == (0.0, 0.0, 0.0)


def test_a_file_gives_back_what_was_written(X, tmp_path):
    about = {"model": "m", "state": "pre-trained", "layer": 6}
    columns = {
        "token": ["</script>" if i % 2 else "ü" for i in range(len(X))],
        "frequency": [None if i % 3 else 1.5 for i in range(len(X))],
    }
    shown = draw_picture(X, columns=columns, about=about, points=25)
    write_picture(shown, tmp_path / "p.parquet")
    back = read_picture(tmp_path / "p.parquet")
    assert (back.points == shown.points).all() and (back.rows == shown.rows).all()
    assert (back.about, back.explained) == (about, shown.explained)
    assert {name: list(column) for name, column in back.columns.items()} == shown.columns


def test_another_table_is_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table({"x": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="not a picture of a cloud"):
        read_picture(tmp_path / "other.parquet")
