"""The tasks, one file each.

copy            recite ten symbols after a delay
adding          add the two marked numbers
pmnist          classify a digit, pixel by pixel in a fixed random order; bigpmnist: in a larger black image
randomlabels    memorise labels that mean nothing
speech          frames of speech: predict the next one, or repeat the last one
text            predict the next character of a file
fit             a table and a question about it, made by `srnn fit`

To add a task, write one file like copy.py and add its class to TASKS. A file of your own needs no entry: `srnn train FILE.py`.
"""

from srnn.lab.tasks.adding import Adding
from srnn.lab.tasks.copy import Copy
from srnn.lab.tasks.fitted import Fitted
from srnn.lab.tasks.pmnist import PMNIST, BigPMNIST
from srnn.lab.tasks.randomlabels import RandomLabels
from srnn.lab.tasks.speech import Speech
from srnn.lab.tasks.task import Batch, Task
from srnn.lab.tasks.text import Text

__all__ = ["FITTED", "TASKS", "Batch", "Task"]

TASKS: dict[str, type[Task]] = {kind.name: kind for kind in (Adding, BigPMNIST, Copy, PMNIST, RandomLabels, Speech, Text)}
FITTED: dict[str, type[Task]] = {Fitted.name: Fitted}  # not for `srnn train`, which has no table
