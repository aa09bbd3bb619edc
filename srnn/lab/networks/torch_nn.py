"""rnn, lstm and gru: the layers of torch with their defaults. The vanilla network has tanh, as in the SRNN paper."""

from torch import nn

from srnn.lab.networks.network import Network


class RNNNetwork(Network):
    """nn.RNN with tanh."""

    name = "rnn"
    authors_counts = {"": 17_025}

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return nn.RNN(input_size, self.hidden_size, self.num_layers, batch_first=True)


class LSTMNetwork(Network):
    """nn.LSTM."""

    name = "lstm"
    authors_counts = {"": 67_713}

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return nn.LSTM(input_size, self.hidden_size, self.num_layers, batch_first=True)


class GRUNetwork(Network):
    """nn.GRU."""

    name = "gru"
    authors_counts = {"": 50_817}

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return nn.GRU(input_size, self.hidden_size, self.num_layers, batch_first=True)
