#!/bin/sh
# Measures the layouts and prints Markdown: bench/layouts/run.sh [n] [rounds] > bench/layouts/RESULTS.md
# CORE=n picks the core to stay on (default: the last), CC the compiler, PYTHON the interpreter of the dict's line.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
n=${1:-1000000} rounds=${2:-9}
CC=${CC:-gcc} PYTHON=${PYTHON:-python3}
core=${CORE:-$(($(nproc) - 1))}
flags="-std=c11 -O2 -Wall -Wextra"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
$CC $flags -I"$here/../../goblin" "$here/layouts.c" -o "$build/layouts"

cat <<EOF
# The layouts, measured

Written by \`bench/layouts/run.sh $n $rounds\`: do not edit. The four candidates and what they share are the headers in
this folder; keys and hashes are the same for all.

- machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, $(lscpu | sed -n 's/^L2 cache: *//p') L2, $(lscpu | sed -n 's/^L3 cache: *//p') L3; $(uname -sr)
- compiler: $($CC --version | head -1), $flags
- date: $(date -u +%Y-%m-%d), on core $core; load average before the run: $(cut -d' ' -f1-3 /proc/loadavg)

EOF
taskset -c "$core" "$build/layouts" "$n" "$rounds"
taskset -c "$core" "$PYTHON" "$here/dict_idiom.py" "$n" "$rounds"
cat <<'EOF'

Cache lines touched by one increment of a counter that is there, by design (the key that the caller brings not counted).
"Small" ones are of structures that stay in the L2 cache at a million counters; "large" ones are of the slots, indexes
and records, which do not. A probe sequence of slots is counted with the mean for linear probing at loads from 3/8 (just
after a split) to 3/4 (just before).

| layout | small | large |
|---|---|---|
| (a) | directory, segment, list of chunks: 3 | index 1, record 1.5 (every other 48-byte record lies across two): 2.5 |
| (b) | directory, segment: 2 | slot 1, and 0.3 to 1.5 more for those probed before it: 1.3 to 2.5 |
| (c) | directory, segment: 2 | slot 1, and 0.2 to 0.8 more; key 1.5: 2.7 to 3.3 |
| (d) | directory, segment: 2 | as (a): 2.5 |
EOF
