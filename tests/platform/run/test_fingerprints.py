"""Do numbers change without a new RESULT_VERSION? Two epochs of every readout against stored fingerprints.

After an intended change of numbers, raise RESULT_VERSION and store new fingerprints:

    python -m tests.platform.run.test_fingerprints
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from permlab.platform.run.training import Training
from permlab.platform.settings.run import RESULT_VERSION, RunSettings
from permlab.platform.settings.words import read_settings
from permlab.readouts.names import NAMES

STORED = Path(__file__).with_name("fingerprints.json")
DATA = "dataset=synthetic,graphs=80,max_nodes=6,features=4,task=classification"
CLOSE = {"64": 1e-8, "32": 1e-3}  # relative, because processors round differently


def fingerprint(method: str, precision: str, runs: Path) -> dict[str, float]:
    """Losses and the size of the weights after two epochs of the definition."""
    d = 1 if method == "power_sums" else 2
    words = [DATA, f"method={method}", f"d={d}", "train.epochs=2", "train.batch_size=16", "data.holdout=20"]
    words += [f"train.precision={precision}", "train.engine=plain", f"runs={runs}"]
    result = Training.prepare(read_settings(RunSettings, words)).run()
    losses = {f"{split}/loss": values["loss"] for split, values in result.metrics.items()}
    return losses | {"weights": sum(float(weight.double().abs().sum()) for weight in result.weights.values())}


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(STORED.read_text())
    assert document["version"] == RESULT_VERSION, f"store new fingerprints: {__doc__}"
    return document["fingerprints"]


@pytest.mark.parametrize("precision", CLOSE)
@pytest.mark.parametrize("method", NAMES)
def test_numbers_change_only_with_the_version(
    stored: dict[str, Any], method: str, precision: str, tmp_path: Path
) -> None:
    expected = stored[f"{method} {precision}"]
    assert fingerprint(method, precision, tmp_path) == pytest.approx(expected, rel=CLOSE[precision]), (
        f"the numbers of {method} changed; raise RESULT_VERSION"
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        kinds = [(method, precision) for method in NAMES for precision in CLOSE]
        fingerprints = {
            f"{method} {precision}": fingerprint(method, precision, Path(folder)) for method, precision in kinds
        }
    STORED.write_text(json.dumps({"version": RESULT_VERSION, "fingerprints": fingerprints}, indent=1) + "\n")
