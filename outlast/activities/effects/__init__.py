"""Internal. The functions of effects, one in each module, as `contract/effects.py` names them."""
