"""Shuffling Recurrent Neural Networks: `SRNN` has the call of `nn.GRU`; `layer.py` has the equations."""

from srnn.diagnose import diagnose
from srnn.kernels import shuffle_scan
from srnn.layer import SRNN, SRNNCell

__all__ = ["SRNN", "SRNNCell", "diagnose", "shuffle_scan"]
__version__ = "0.1.0"
