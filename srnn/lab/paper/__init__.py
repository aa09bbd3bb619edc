"""The paper's tables and figures: what is run for them, and what our records say about the paper's claims.

plan.py         lines, points, measurements, profiles
evidence.py     records, sorted by exhibit, line and place
exhibits/       one file for each table or figure
verdicts.py     claims, findings, and how a verdict is computed
table.py        tables, and the table that most exhibits share
figure.py       figures, and the figures that several exhibits share
"""

from srnn.lab.paper import exhibits as exhibits  # fills plan.EXHIBITS, verdicts.CLAIMS and verdicts.FINDINGS
