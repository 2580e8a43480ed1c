"""A wrong tuning is reported in one line, before Ray or a worker starts."""

import pytest

DATA = "dataset=synthetic,graphs=300,max_nodes=12,task=classification"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tune.space.train.learning_rat={low: 0.1, high: 0.2}"], "did you mean train.learning_rate?"),
        (["tune.space.train.learning_rate={low: 0.2, high: 0.1}"], "low=0.2 is not below high=0.1"),
        (["tune.space.train.batch_size=[64, many]"], "train.batch_size: many"),
        (["tune.space.readout.kernels=[50, 100]"], "tune.space.readout.kernels=50: sum has no option 'kernels'"),
        (["tune.space.kernels.readout.kernels=[50]"], "tune.space names nothing to search for sum"),
        (["tune.metric=f2"], "is measured by auc, acc, ap, loss"),
        (["tune.metric=mae"], "is measured by auc, acc, ap, loss"),
        (["tune.storage=postgresql://me:secret@127.0.0.1:1/studies"], "cannot be reached"),
        (["tune.storage=mysql://host/studies"], "choose postgresql://"),
        (["tune.trials=1", "data.train_only=true"], "tuning measures a validation part: leave out data.train_only"),
        (["tune.trial=3"], "did you mean tune.trials?"),
    ],
)
def test_what_is_wrong_is_one_line(permlab, tmp_path, monkeypatch, words: list[str], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in ("tune", "sweep"):
        code, out, err = permlab(verb, DATA, "d=3", *words)
        assert (code, out) == (2, ""), err
        assert says in err and err.count("\n") == 1 and "secret" not in err
