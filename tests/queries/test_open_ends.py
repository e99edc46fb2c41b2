"""The lowest value of a lattice is a cell that is open below; its transforms know that."""

import numpy as np
import pandas as pd
import pytest
import torch

from marginals import MDMA, Integer
from marginals.columns import encode
from marginals.queries.uniforms import cell_ends


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_lowest_value_has_its_mass(dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"n": random.poisson(1.0, 200), "x": random.normal(size=200)})
    kinds = {"n": Integer(lower=0)}
    model = MDMA(columns=kinds, width=4, max_steps=10, random_state=0).fit(table)
    model.module_.to(dtype)
    values = pd.DataFrame({"n": [0, 1, 2]})
    mass = np.array([model.prob({"n": n}) for n in values["n"]])
    cells = model.module_.checked(encode(model.schema_, values).evidence)
    below, at = cell_ends(model.module_, cells, [0], [])[:, 0].unbind(-1)
    assert below[0] == 0
    np.testing.assert_allclose((at - below).numpy(), mass, atol=1e-6)
    np.testing.assert_allclose(model.surprise(values)["n"], -np.log(mass), rtol=1e-5)
