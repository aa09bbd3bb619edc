"""The networks, one file each. The baselines are written from the equations of their papers.

    srnn srnnstack          ours
    rnn lstm gru            layers of torch (torch_nn.py)
    urnn rgd eurnn          unitary:     h_t = modReLU(x_t V + h_{t-1} W; b) with a complex state; they differ in how W is built
    scornn exprnn nnrnn     orthogonal:  the same with a real state (orthogonal.py)
    nru                     a state and a memory that is written and erased
    indrnn mingru lru       each unit depends on its own past only

Each file starts with the paper, the equation, and where the released code differs.

To add a network, write one file like mingru.py and add its class to one of the groups below. A file of your own needs no entry:
`srnn train copy --model FILE.py`.
"""

from srnn.lab.networks.eurnn import EURNNNetwork
from srnn.lab.networks.exprnn import EXPRNNNetwork
from srnn.lab.networks.indrnn import IndRNNNetwork
from srnn.lab.networks.lru import LRUNetwork
from srnn.lab.networks.mingru import MinGRUNetwork
from srnn.lab.networks.network import Group, Network
from srnn.lab.networks.nnrnn import NNRNNNetwork
from srnn.lab.networks.nru import NRUNetwork
from srnn.lab.networks.rgd import RGDNetwork
from srnn.lab.networks.scornn import SCORNNNetwork
from srnn.lab.networks.srnn import SRNNNetwork
from srnn.lab.networks.srnnstack import SRNNStackNetwork
from srnn.lab.networks.torch_nn import GRUNetwork, LSTMNetwork, RNNNetwork
from srnn.lab.networks.urnn import URNNNetwork

__all__ = ["NETWORKS", "Group", "Network"]

OURS, OF_TORCH = (SRNNNetwork, SRNNStackNetwork), (RNNNetwork, LSTMNetwork, GRUNetwork)
UNITARY, ORTHOGONAL = (URNNNetwork, RGDNetwork, EURNNNetwork), (SCORNNNetwork, EXPRNNNetwork, NNRNNNetwork)
OTHERS = (NRUNetwork, IndRNNNetwork, MinGRUNetwork, LRUNetwork)
KINDS: tuple[type[Network], ...] = (*OURS, *OF_TORCH, *UNITARY, *ORTHOGONAL, *OTHERS)
NETWORKS = {kind.name: kind for kind in sorted(KINDS, key=lambda kind: kind.name)}
