#!/bin/sh
# From a CSV file to a C program: train on a table, predict, export, compile and run. It writes to the current folder.
set -e

# Sixty series of 20 steps, half of them slow waves and half fast ones.
awk 'BEGIN { srand(1); print "series,x,label"; for (s = 0; s < 60; s++) for (t = 0; t < 20; t++)
    print s "," sin(t * (s % 2 ? 0.9 : 0.3) + s) + rand() / 5 "," (s % 2 ? "fast" : "slow") }' > waves.csv

srnn fit waves.csv --target label --id series --steps 300 --out run
srnn predict run waves.csv --out answers.csv --overwrite
srnn export run --format c --out wave.h --overwrite

cat > main.c <<'END'
#include <stdio.h>
#include "wave.h"

int main(void)
{
    static wave_state s;
    double raw[WAVE_INPUTS];
    float x[WAVE_INPUTS], y[WAVE_OUTPUTS] = {0};
    wave_init(&s);
    while (scanf("%lf", raw) == 1) {
        wave_prepare(raw, x);
        wave_step(&s, x, y);
    }
    puts(wave_class(y));
    return 0;
}
END
${CC:-cc} -std=c99 -O2 main.c -o wave -lm
awk -F, '$1 == "7" { print $2 }' waves.csv | ./wave
