"""rnn, lstm and gru: torch's own layers, as everyone uses them. The vanilla network has tanh, as in the SRNN paper."""

from torch import nn

from srnn.lab.networks.network import Network


class RNNNetwork(Network):
    name = "rnn"
    authors_counts = {"": 17_025}

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return nn.RNN(input_size, self.hidden_size, self.num_layers, batch_first=True)


class LSTMNetwork(Network):
    name = "lstm"
    authors_counts = {"": 67_713}

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return nn.LSTM(input_size, self.hidden_size, self.num_layers, batch_first=True)


class GRUNetwork(Network):
    name = "gru"
    authors_counts = {"": 50_817}

    def layer(self, input_size: int, steps: int) -> nn.Module:
        return nn.GRU(input_size, self.hidden_size, self.num_layers, batch_first=True)
