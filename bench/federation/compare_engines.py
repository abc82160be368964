#!/usr/bin/env python3
"""Times the rounds of a LeNet federation of five nodes on every engine, in turn, with as many cores each.

    bench/federation/compare_engines.py build/release/labelshift --repeats 5

Prints the time of a round of training, the median over the repeats, for tau = 1 and tau = 10 local steps, and how much
longer it is than in one process. The time is what summary.json says of the phase "training", so neither starting
programs nor reading data counts.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

EXPERIMENT = pathlib.Path(__file__).with_name("lenet-5.toml")


def commands(program):
    """How each engine is started on two cores."""
    run = [program, "run", str(EXPERIMENT)]
    return {
        "in process, 2 threads": run + ["--workers", "2"],
        "mpi, 2 ranks": ["mpirun", "--oversubscribe", "-n", "2", *run, "--engine", "mpi"],
        "grpc, 5 nodes": run + ["--engine", "grpc"],  # processes of their own, under mutual TLS
    }


def seconds_a_round(command, rounds, tau):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "--rounds", str(rounds), "--set", f"training.local-steps={tau}", "--output", folder],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        summary, = pathlib.Path(folder).glob("*/*-seed-*/summary.json")
        phases = json.loads(summary.read_text())["federation"]["phases"]
    training = next(phase for phase in phases if phase["name"] == "training")
    return training["seconds"] / rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the command to time")
    parser.add_argument("--repeats", type=int, default=5, help="of every measurement (5)")
    options = parser.parse_args()
    engines = commands(options.program)
    for tau, rounds in ((1, 500), (10, 100)):
        times = {name: [] for name in engines}
        for _ in range(options.repeats):
            for name, command in engines.items():
                times[name].append(seconds_a_round(command, rounds, tau))
        base = statistics.median(next(iter(times.values())))
        for name, found in times.items():
            middle = statistics.median(found)
            print(f"tau = {tau:2}  {name:22} {1e3 * middle:7.2f} ms a round ({1e3 * min(found):.2f} to {1e3 * max(found):.2f})"
                  f"  {1e3 * (middle - base):+6.2f} ms  {100 * (middle / base - 1):+5.1f} %", flush=True)


if __name__ == "__main__":
    main()
