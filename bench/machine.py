"""What the machine is, whether it is idle, and running one program on it. Linux only, like lockstep."""

import json
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def cpu_description():
    """(model name, set of flags) of the first processor in /proc/cpuinfo."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if not name.strip():
            break
        fields[name.strip()] = value.strip()
    return fields.get("model name", "unknown"), set(fields.get("flags", "").split())


def program_version(program):
    """First line of `lockstep version`: which build was measured, whatever tree lies around this file."""
    done = subprocess.run([str(program), "version"], capture_output=True, text=True, check=False)
    return (done.stdout.strip().splitlines() or ["unknown"])[0]


def processor_times():
    """(busy, stolen, all) jiffies since boot, over all processors."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    busy = user + nice + system + irq + softirq
    return busy, steal, busy + steal + idle + iowait


def other_load(seconds=2.0):
    """Processors kept busy by others while this program sleeps, stolen time included."""
    before = processor_times()
    time.sleep(seconds)
    after = processor_times()
    busy, stolen, whole = (b - a for a, b in zip(before, after))
    return (busy + stolen) / max(1, whole) * os.cpu_count()


class ProgramFailed(Exception):
    pass


def run_json(command, environment, timeout_s=1800):
    """Runs a program and returns the JSON object in the last line of its output."""
    shown = " ".join(map(str, command))
    try:
        done = subprocess.run(
            list(map(str, command)),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise ProgramFailed(f"cannot run {shown}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(f"{shown} was not done after {timeout_s} s") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise ProgramFailed(f"{shown} ended with exit code {done.returncode}:\n{tail}")
    lines = done.stdout.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise ProgramFailed(f"{shown} did not end with a line of JSON, but with: {lines[-1:]}") from error
