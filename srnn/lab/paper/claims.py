"""What the paper claims, in our words, each with the rule (rules.py) that gives its verdict from records; nobody types one."""

from collections.abc import Callable
from dataclasses import dataclass

from srnn.lab.paper import rules
from srnn.lab.paper.evidence import Evidence, Missing
from srnn.lab.paper.rules import AT_EQUAL_TIME, FAILS, HOLDS, IN_PART, NOT_TESTED, Diverged, Judgement

VERDICTS = (HOLDS, AT_EQUAL_TIME, IN_PART, FAILS, NOT_TESTED)
# How verdicts are made, a paragraph each.
ABOUT = (
    "A verdict is computed from records by the rule of its claim, and typed by nobody; rules and their limits are ours.",
    "Words: the guesser's line is the loss of the best answer without memory; f_r is the small MLP in SRNN, d_h the number of "
    "units; an own recipe is what a rival's own paper recommends; one-hot is without an embedding; the echo is the speech task "
    "of the published numbers, whose errors are in dB².",
    "In the profile cpu SRNN has the paper's settings, and each rival as many updates or five minutes of one core (permuted "
    "MNIST: as long as SRNN took), whichever ends first. A star marks the numbers of rivals that the clock has stopped.",
    "A rival that the clock has stopped is beaten when it had a quarter of its updates, and over the last third of those it "
    "made its error fell by less than 2 % (and its accuracy rose by less than 0.3 points); or, where updates or epochs are "
    "counted (claims 5, 8, 9 and 25), when it made more of them than the other needed (claim 5: twice as many). Otherwise SRNN "
    "can be ahead at equal time, counted in seconds of one core.",
    "On copy and adding a run that came to its end is told by the lowest mean of 500 updates, one that was stopped by the "
    "lowest of its curve. Curves are medians of five means of 100 updates, which a spike does not move.",
    "On copy and permuted MNIST SRNN reads symbols of an alphabet, which makes it faster; rivals have no such form.",
    "Less than 2 % of the error, or less than the spread of seeds, is no difference. Of several seeds the middle one says how "
    "long something took. A claim that a rival fails (10 and 11) takes two of its seeds; SRNN has failed where one of its "
    "seeds diverged.",
    "A claim holds in part when some of it was seen to hold, at equal time at least, and some not; it does not hold when "
    "nothing was. What was not run, or what the clock left open, is not tested.",
)


@dataclass(frozen=True)
class Claim:
    """number: in our list. says: what the paper says, in our words. rule: when it holds."""

    number: int
    says: str
    exhibit: str
    rule: str
    judge: Callable[[Evidence], Judgement]


@dataclass(frozen=True)
class Verdict:
    """printed: the verdict on the paper's own numbers, where the rule can be applied to them."""

    claim: Claim
    verdict: str
    found: str
    printed: str | None = None


def verdicts(evidence: Evidence) -> list[Verdict]:
    """One for every claim, in their order."""
    printed = Evidence.printed()
    found = []
    for claim in CLAIMS:
        of_the_paper = _judged(claim, printed)[0]
        shown = of_the_paper if of_the_paper != NOT_TESTED else None
        found.append(Verdict(claim, *_judged(claim, evidence), shown))
    return found


def _judged(claim: Claim, evidence: Evidence) -> Judgement:
    try:
        return claim.judge(evidence)
    except Diverged as lost:
        return FAILS, str(lost)
    except Missing as missing:
        return NOT_TESTED, str(missing)


CLAIMS = (
    Claim(
        1,
        "SRNN trains without gradient clipping",
        "copy",
        "no run of copy, adding, pMNIST, speech and random labels at the paper's settings diverges (in part: below a tenth); "
        "whether it then learns its task is for other claims",
        rules.no_clipping,
    ),
    Claim(
        2,
        "Gradients neither explode nor vanish",
        "gradients",
        "the norm of dL/dh_t on adding at the first hundredth of the steps over that at the last, median of seeds, is above "
        "0.001 and below 10, untrained and trained, at T = 200, 1000 and 2000 (1: nothing is lost, 0: all is; not on copy, "
        "where the loss of every later step adds to it)",
        rules.no_explosion,
    ),
    Claim(
        3,
        "A unit meets a zero within k steps with probability k / (1 + k)",
        "gradients",
        "after 10 and 100 steps the share of units that have not is within a factor of 2 of 1 / (1 + k), untrained and trained",
        rules.survival,
    ),
    Claim(
        4,
        "Its cost is linear in the number of units",
        "timecomplexity",
        "the fitted exponent of its time is below 1.2 with all of its 95 % interval; those of rivals are shown beside it",
        rules.linear_cost,
    ),
    Claim(
        5,
        "On copy only SRNN deals efficiently with delays above 100",
        "copy",
        "SRNN comes below a tenth of the guesser's line at T = 200 to 2000 (the middle of three seeds), and no rival, by any "
        "recipe that was run, with or without an embedding, with less than twice its updates (where the batch is another: "
        "twice its sequences)",
        rules.only_srnn_copies,
    ),
    Claim(
        6,
        "Its loss on copy can rise again",
        "copy",
        "in some run a mean of 500 updates is above ten times an earlier one, and above 1 % of the guesser's line",
        rules.rises_again,
    ),
    Claim(
        7,
        "GRU and LSTM solve copy in part, and better than uRNN at long delays",
        "copy",
        "each is below 0.9 of the guesser's line somewhere and above 0.1 at two delays, and at T = 2000 below 0.9 and better "
        "than uRNN",
        rules.gates_copy_in_part,
    ),
    Claim(
        8,
        "An embedding helps every network on copy",
        "copy",
        "with it a tenth of the guesser's line takes less than 0.9 of the updates; where neither gets there, its lowest loss "
        "is less than 0.9 of that without, at equal updates, a quarter of all at least",
        rules.embedding_helps,
    ),
    Claim(
        9,
        "Adding: NRU, GRU and SRNN are quick, NRU quickest, LSTM slow",
        "adding",
        "NRU needs the fewest updates to a tenth of the guesser's error, LSTM the most, at every T",
        rules.quick_at_adding,
    ),
    Claim(
        10,
        "nnRNN solves copy up to 300 and adding below 200 only",
        "copy",
        "it comes below a tenth of the guesser's line on copy at 100, 200 and 300 and on adding at 100, and with two seeds not "
        "on copy at 500 and on adding at 200",
        rules.limits_of_nnrnn,
    ),
    Claim(
        11,
        "RNN does not converge on pMNIST",
        "psmnist",
        "two seeds stay below 50 % test accuracy (in part: below 80 %); at equal time, where the clock has stopped them and "
        "SRNN is above 80 % by then",
        rules.rnn_fails_at_digits,
    ),
    Claim(
        12,
        "SRNN is best on pMNIST, with 50k parameters against 165k",
        "psmnist",
        "its mean of three seeds beats every rival, no other run of one beats it, and LSTM, GRU and NRU have more than three "
        "times its parameters",
        rules.best_at_digits,
    ),
    Claim(
        13,
        "Its lead is largest on big pMNIST",
        "psmnist",
        "it beats LSTM and GRU on both, and its lead over the better of them is larger there by more than the spread of seeds",
        rules.lead_grows,
    ),
    Claim(
        14,
        "On pMNIST it is insensitive to units, depth and width",
        "pmnistablation",
        "12 settings with a gate are within 2 points",
        rules.insensitive,
    ),
    Claim(
        15,
        "Without the gate it is somewhat worse, more so when large",
        "pmnistablation",
        "each of these is more than the spread of three seeds: what the gate gains at 1024 units, width 32, depth 3; what it "
        "gains on average of six settings, both at 512 units and at 1024; and, where one of these two is, how much more that "
        "average is at 1024",
        rules.gate_helps,
    ),
    Claim(
        16,
        "On TIMIT only NRU is better",
        "timit",
        "on the task of the published numbers SRNN beats LSTM, GRU and uRNN at every size, EXPRNN, SCORNN, EURNN and RGD at "
        "the nearest, and NRU beats SRNN somewhere",
        rules.only_nru_is_better,
    ),
    Claim(
        17,
        "NRU needs ten times the parameters for it",
        "timit",
        "NRU 1024 has at least ten times those of SRNN 2048",
        rules.nru_is_larger,
    ),
    Claim(
        18,
        "f_r of width 8 is only slightly worse than of width 32",
        "timitablation",
        "the median of the error of width 8 over that of width 32 is at most 1.5",
        rules.narrow_is_enough,
    ),
    Claim(
        19,
        "Depth of f_r matters little in large networks",
        "timitablation",
        "worst less best of three depths, on average, is at 1024 and 2048 units less than half of that at 128, in dB² and as a "
        "share of the error (in part: one of both), or less than 5 % of the error",
        rules.depth_matters_little,
    ),
    Claim(
        20,
        "On adding the state has three bands, cut by the markers",
        "hiddenstate",
        "before, between and after the markers, the first ten steps aside, a step changes it less than a fifth of what a "
        "marker does, and from the first step of a band to its last it changes by less than half",
        rules.three_bands,
    ),
    Claim(
        21,
        "On copy the state is still after step 10",
        "hiddenstate",
        "in the delay a step changes it at most a tenth of what a symbol does, and all of the delay less than a quarter",
        rules.still_while_it_waits,
    ),
    Claim(
        22,
        "On pMNIST the state evolves all the time",
        "hiddenstate",
        "over every third of the sequence it changes by more than half, and more than on copy over the delay and on adding "
        "between the markers",
        rules.evolves,
    ),
    Claim(
        23,
        "On TIMIT the state drops what is irrelevant",
        "hiddenstate",
        "of units that were positive for ten steps a step sets more than twice the share to zero than on adding and on copy: "
        "it forgets faster there; whether what it forgets is irrelevant is not measured",
        rules.drops_what_is_irrelevant,
    ),
    Claim(
        24,
        "Its capacity equals that of its rivals",
        "randomlabels",
        "its accuracy on random labels in the end is at most 2 points below those of LSTM, GRU and RNN, for every crop and "
        "number of samples",
        rules.equal_capacity,
    ),
    Claim(
        25,
        "It fits random labels in fewer epochs, more so at 16x16",
        "randomlabels",
        "it takes fewer epochs to 90 % than every rival with 100 and 1000 samples, and by a larger factor at 16x16 than at "
        "8x8, where rivals get there",
        rules.fewer_epochs,
    ),
    Claim(
        26,
        "It is the fastest on all four tasks",
        "runtime",
        "a training step of every rival takes 5 % longer than SRNN's without its alphabet form, or more, on an idle machine",
        rules.fastest,
    ),
    Claim(
        27,
        "Only uRNN has fewer parameters",
        "runtime",
        "on adding, at the sizes of Table 4, uRNN alone of its five rivals has fewer parameters",
        rules.few_parameters,
    ),
)
assert [claim.number for claim in CLAIMS] == list(range(1, 28))  # all of them, in their order
