#!/usr/bin/env bash
# Runs the study in docs/learning.md. Recorded runs are skipped and stopped runs resume.
#   results/learning/run.sh choose
#   WINNER=-3.0 results/learning/run.sh confirm
#   results/learning/run.sh rates
#   results/learning/run.sh compare
set -euo pipefail
cd "$(dirname "$0")/../.."
SRNN=${SRNN:-.venv/bin/srnn} JOBS=${JOBS:-2} INTO=${INTO:-results/learning}
SEEDS=21,22,23

sweep() { "$SRNN" sweep "$@" --jobs "$JOBS" --results "$INTO"; }

candidates() {  # one task with the seven start values
  sweep "$@" --grid gate_init=0.0,-1.0,-2.0,-3.0,-4.0 --grid seed=$SEEDS
  sweep "$@" --grid f_r_scale=0.1,0.3 --grid seed=$SEEDS
}

choose() {
  candidates copy --set length=200 --set steps=2000
  candidates adding --set length=200 --set steps=2500
  candidates pmnist --set hidden_size=512 --set epochs=3
  candidates adding --set length=400 --set steps=3000
  candidates copy --set length=1000 --set steps=3000
  candidates text --set hidden_size=256 --set steps=1000 --set eval_every=250
  candidates speech --set direction=echo --set standardise=True --set scale_targets=True \
    --set hidden_size=256 --set steps=1000 --set eval_every=250
  candidates adding --set length=1000 --set steps=3000
}

both() {  # the winner with ten seeds, the paper's start with three
  sweep "$@" --grid gate_init="$WINNER" --grid seed=21,22,23,24,25,26,27,28,29,30
  sweep "$@" --grid gate_init=0.0 --grid seed=$SEEDS
}

level() { python3 -c "import math; print(math.log(8) / ($1 + 20))"; }  # a tenth of chance level on copy

confirm() {
  for T in 100 200 300 500 1000 2000; do both copy --set length=$T --set steps=20000 --set stop_below="$(level $T)"; done
  for T in 100 200 400; do both adding --set length=$T --set steps=20000 --set stop_below=0.01; done
  sweep pmnist --grid gate_init="$WINNER",0.0 --grid seed=$SEEDS --set epochs=10
  for T in 750 1000; do both adding --set length=$T --set steps=20000 --set stop_below=0.01; done
  sweep adding --grid gate_init="$WINNER",0.0 --grid seed=$SEEDS --set length=1500 --set steps=20000 --set stop_below=0.01
  sweep adding --grid gate_init="$WINNER" --grid seed=$SEEDS --set length=5000 --set steps=5000 --set stop_below=0.01
}

TEXT=(--set hidden_size=256 --set cpu_minutes=1.0 --set steps=1000000 --set eval_every=100)
SPEECH=(--set direction=predict --set hidden_size=256 --set standardise=True --set scale_targets=True --set optimizer=adam --set clip=1.0
  --set cpu_minutes=3.0 --set steps=1000000 --set eval_every=150)

width() { [ "$1" = srnnstack ] && echo "--set width=64" || true; }

# Networks take turns, so that they find the machine in the same state.
text() { sweep text --model "$1" $(width "$1") "${TEXT[@]}" --set lr="$2" --grid seed="$3"; }
speech() { sweep speech --model "$1" "${SPEECH[@]}" --set lr="$2" --grid seed="$3"; }

rates() {
  for lr in 0.002 0.004 0.008; do for network in gru srnnstack srnn; do text $network $lr 21; done; done
  for lr in 0.001 0.002 0.004; do for network in gru srnnstack; do speech $network $lr 21; done; done
}

best_rate() {  # TASK NETWORK: the learning rate with the best validation score among the runs of `rates`
  python3 - "$INTO/$1.jsonl" "$2" <<'PYTHON'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
runs = [r for r in records if r["run"]["network"]["name"] == sys.argv[2] and r["run"]["cpu_minutes"] and r["run"]["seed"] == 21]
print(min(runs, key=lambda r: r["selection"]["score"])["run"]["lr"])
PYTHON
}

compare() {
  for seed in 22 23 24 25 26; do
    for network in gru srnnstack srnn; do text $network "$(best_rate text $network)" $seed; done
    for network in gru srnnstack; do speech $network "$(best_rate speech $network)" $seed; done
  done
}

"${1:?choose, confirm, rates or compare}"
