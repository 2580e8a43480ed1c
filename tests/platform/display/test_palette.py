"""Colours that everybody can distinguish, on both backgrounds."""

from itertools import combinations

import numpy as np
import pytest

from permlab.platform.display.palette import COLOURS, styles_of
from permlab.readouts.names import NAMES, PAPER_METHODS

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.clip(TO_XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089], 0.008856, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colours_can_be_distinguished(vision: str) -> None:
    seen = [lab(VISION[vision] @ linear(colour)) for colour in COLOURS]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 20  # about 2 is just noticeable


@pytest.mark.parametrize("back", ["#ffffff", "#15181d"])
def test_colours_stand_out_from_the_page(back: str) -> None:
    for colour in COLOURS:
        light = sorted(float(TO_XYZ[1] @ linear(c)) + 0.05 for c in (colour, back))
        assert light[1] / light[0] >= 3


def test_the_papers_methods_differ_by_colour_and_all_methods_by_style() -> None:
    styles = styles_of(NAMES)
    assert list(styles) == list(NAMES)
    assert len({styles[method].colour for method in PAPER_METHODS}) == 7
    assert len(set(styles.values())) == len(NAMES)


def test_any_number_of_plug_ins_differ_and_leave_the_built_in_styles_alone() -> None:
    methods = [f"mine.py:Readout{i}" for i in range(150)]
    styles = styles_of([*methods, *PAPER_METHODS, "kernels,kernels=400"])
    assert len(set(styles.values())) == len(styles) == 158
    assert {name: styles[name] for name in PAPER_METHODS} == styles_of(PAPER_METHODS)
    assert styles == styles_of(reversed([*methods, *PAPER_METHODS, "kernels,kernels=400"]))
