"""Shuffling Recurrent Neural Networks: `SRNN` and `SRNNStack` are used like `nn.GRU`; `layer.py` has the equations."""

from srnn.diagnose import diagnose
from srnn.kernels import shuffle_scan
from srnn.layer import SRNN, SRNNCell
from srnn.stack import SRNNStack

__all__ = ["SRNN", "SRNNCell", "SRNNStack", "diagnose", "shuffle_scan"]
__version__ = "0.1.0"
