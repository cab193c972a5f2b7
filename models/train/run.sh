#!/bin/sh
# Train for the given number of minutes, in the background, with a log.
#
# usage: run.sh WORK_FOLDER MINUTES
#
# PyTorch takes and frees large buffers in every step. The MALLOC_ settings
# make glibc keep those pages; without them most of the time goes into page
# faults. There is one process per core, so each must use one thread only.
cd "$(dirname "$0")" || exit 1
export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296
export MALLOC_TOP_PAD_=268435456 MALLOC_ARENA_MAX=1
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
nice -n 10 nohup env -u OPENBLAS_NUM_THREADS -u OPENBLAS_CORETYPE \
    /usr/bin/python3 train.py "$1/train.txt" ../heldout.txt "$1/tok.model" \
    "$1/checkpoint.pt" "$2" > "$1/train.log" 2>&1 &
echo "training runs as process $!, log: $1/train.log"
