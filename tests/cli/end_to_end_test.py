#!/usr/bin/env python3
"""The lockstep binary end to end: commands, error texts, every exit code that one machine can give.

Runs are a model of a few thousand parameters on a text written here, so the whole file takes seconds. What
needs rights that are missing (a full disk is a tiny tmpfs) is skipped, aloud.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = ""

# A small model; every test overrides what it needs.
SMALL = ["--n-layer=1", "--n-head=2", "--n-embd=16", "--block-size=16", "--batch-size=4",
         "--warmup-iters=2", "--eval-interval=5", "--eval-iters=1", "--checkpoint-interval=4",
         "--data=text.txt"]


def some_text(seed):
    """Random words of two letters: 12 different characters with the blank and the line break."""
    rng = random.Random(seed)
    words = [rng.choice("abcdefg") + rng.choice("xyz") for _ in range(700)]
    return "\n".join(" ".join(words[i:i + 7]) for i in range(0, len(words), 7)) + "\n"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-cli-"))
        (self.folder / "text.txt").write_text(some_text(1))
        self.environment = {k: v for k, v in os.environ.items()
                            if k not in ("LOCKSTEP_ISA", "LOCKSTEP_DATA", "OMP_NUM_THREADS")}
        # Nothing of the machine's own caches may decide a test.
        self.environment["HOME"] = str(self.folder)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_lockstep(self, *arguments, expect=0, environment=None):
        done = subprocess.run([LOCKSTEP, *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=120,
                              env={**self.environment, **(environment or {})}, check=False)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def train(self, *arguments, **keywords):
        return self.run_lockstep("train", *SMALL, "--max-iters=10", "--lr-decay-iters=10", *arguments,
                                 **keywords)

    def fails(self, code, *arguments, error="", hint="", environment=None):
        done = self.run_lockstep(*arguments, expect=code, environment=environment)
        self.assertRegex(done.stderr, r"(?m)^error: ")
        self.assertIn(error, done.stderr)
        self.assertIn(hint, done.stderr)
        self.assertNotIn("terminate called", done.stderr)
        return done

    def events(self, out, kind):
        lines = [json.loads(line) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["event"] == kind]

    def numbers(self, out):
        return [(e["step"], e["loss"], e["lr"], e["grad_norm"], e["params_hash"])
                for e in self.events(out, "step")]

    def weights(self, out, step):
        return (self.folder / out / "checkpoints" / str(step) / "model.safetensors").read_bytes()


class Usage(Case):
    def test_help_of_every_command(self):
        overview = self.run_lockstep("--help").stdout
        for command in (["train"], ["sample"], ["inspect"], ["inspect", "step"], ["bench", "step"],
                        ["data", "prepare"], ["data", "info"], ["version"]):
            name = " ".join(command)
            self.assertIn(name, overview)
            done = self.run_lockstep(*command, "--help")
            self.assertIn(f"usage: lockstep {name}", done.stdout)
            self.assertEqual(self.run_lockstep("help", *command).stdout, done.stdout)
        self.assertIn("--learning-rate X", self.run_lockstep("train", "--help").stdout)

    def test_no_command_is_usage(self):
        self.assertIn("usage:", self.run_lockstep(expect=2).stderr)

    def test_version(self):
        text = self.run_lockstep("version").stdout
        for part in ("lockstep 0.", "compiler", "oneDNN", "kernels for"):
            self.assertIn(part, text)
        self.assertEqual(text, self.run_lockstep("--version").stdout)

    def test_nearest_names(self):
        self.fails(2, "trian", error="no command 'trian'", hint="did you mean `lockstep train`?")
        self.fails(2, "data", "prepar", hint="did you mean `lockstep data prepare`?")
        self.fails(2, "data", error="lockstep data needs a command")
        self.fails(2, "train", "shakespear-char", hint="did you mean shakespeare-char?")
        self.fails(2, "train", "--learning-rat", "1", hint="did you mean --learning-rate?")
        self.fails(2, "sample", "out", "--temprature=1", hint="did you mean --temperature?")

    def test_wrong_values(self):
        self.fails(2, "train", "--learning-rate=50", error="learning_rate to 50", hint="Too high")
        self.fails(2, "train", "--batch_size=many", error="batch_size to 'many' (--batch-size)")
        self.fails(2, "train", "--seed", error="--seed")
        self.fails(2, "train", "--n-head=3", error="n_head 3")
        self.fails(2, "train", "--min-lr=1", error="min_lr 1 is above learning_rate")
        self.fails(2, "train", "no-such.toml", error="no-such.toml: there is no such file")
        self.fails(2, "train", "text.txt", hint="--data")
        self.fails(2, "train", "a", "b", error="got 'a' 'b'")

    def test_no_gpu(self):
        self.fails(2, "train", "--device-type=cuda", error="computes on the CPU only")
        self.fails(2, "train", "--device=cuda:0", error="computes on the CPU only")

    def test_memory_plan_that_cannot_fit(self):
        self.fails(2, "train", "--n-layer=1024", "--n-embd=8192", "--n-head=64", error="of memory",
                   hint="--n-embd")

    def test_instruction_set_by_environment(self):
        self.fails(2, "version", error="LOCKSTEP_ISA=NOPE", hint="available: ",
                   environment={"LOCKSTEP_ISA": "NOPE"})


class Data(Case):
    def test_broken_texts(self):
        (self.folder / "empty.txt").write_text("")
        (self.folder / "short.txt").write_text("ab")
        (self.folder / "broken.txt").write_bytes(b"good \xff bad" * 100)
        for name in ("empty.txt", "short.txt", "broken.txt", "missing.txt"):
            self.fails(3, "train", *SMALL, f"--data={name}", error=name)

    def test_known_text_that_is_nowhere(self):
        self.fails(3, "train", "--data=shakespeare", "--no-download", "--data-path=.", error="shakespeare")

    def test_prepare_and_train_on_the_folder(self):
        self.run_lockstep("data", "prepare", "text.txt", "--out-dir", "tokens")
        self.assertEqual(sorted(p.name for p in (self.folder / "tokens").iterdir()),
                         ["meta.json", "train.bin", "val.bin"])
        info = self.run_lockstep("data", "info", "tokens").stdout
        self.assertEqual(info.splitlines()[1:], self.run_lockstep("data", "info",
                                                                  "text.txt").stdout.splitlines()[1:])
        self.train("--out-dir=a")
        self.train("--out-dir=b", "--data=tokens")
        self.assertEqual(self.numbers("a"), self.numbers("b"))
        self.fails(2, "data", "prepare", "text.txt", error="needs --out-dir")


class Training(Case):
    def test_run_sample_inspect(self):
        shown = self.train("--out-dir=out").stdout
        for part in ("recipe default", "number of parameters", "computing: ", "memory: ", "expected time",
                     "step 10/10", "whole validation set"):
            self.assertIn(part, shown)
        self.assertNotIn("\r", shown, "no bar outside a terminal")
        self.assertEqual([e["step"] for e in self.events("out", "step")], list(range(1, 11)))
        self.assertEqual(self.events("out", "end")[-1]["reason"], "done")
        inspected = self.run_lockstep("inspect", "out").stdout
        self.assertIn("10 of 10", inspected)
        self.assertIn("sound", inspected)
        first = self.run_lockstep("sample", "out", "--prompt", "ax by", "--max-new-tokens=30").stdout
        self.assertTrue(first.startswith("ax by"))
        self.assertEqual(len(first), 36)
        self.assertEqual(first, self.run_lockstep("sample", "out", "--start=ax by",
                                                  "--max_new_tokens=30").stdout)
        self.fails(3, "sample", "out", "--prompt=Q", error="'Q'")
        self.fails(2, "sample", "out", "--top-k=x", error="--top-k")
        self.fails(2, "sample", "nowhere", error="no such folder")
        self.fails(2, "inspect", "text.txt", error="not the folder of a run")

    def test_same_bits_for_any_number_of_threads(self):
        self.train("--out-dir=a", "--threads=1")
        self.train("--out-dir=b", "--threads=3")
        self.assertEqual(self.weights("a", 10), self.weights("b", 10))
        self.assertEqual(self.numbers("a"), self.numbers("b"))

    def test_nanogpts_command_line(self):
        (self.folder / "data" / "shakespeare_char").mkdir(parents=True)
        self.run_lockstep("data", "prepare", "text.txt", "--out-dir", "data/shakespeare_char")
        flags = ["--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=1", "--block_size=64",
                 "--batch_size=12", "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2",
                 "--lr_decay_iters=2000", "--dropout=0.0"]
        shown = self.run_lockstep("train", "config/train_shakespeare_char.py", "--dataset=shakespeare_char",
                                  *flags).stdout
        self.assertIn("using the built-in recipe shakespeare-char", shown)
        self.assertIn("without meaning here: compile", shown)
        self.assertIn("into out-shakespeare-char", shown)
        self.assertEqual(len(self.events("out-shakespeare-char", "step")), 2)
        # And with a configuration file of that kind.
        (self.folder / "config").mkdir()
        (self.folder / "config" / "train_shakespeare_char.py").write_text(
            "# mine\nout_dir = 'out-mine'\ndataset = 'shakespeare_char'\ngradient_accumulation_steps = 1\n"
            "learning_rate = 1e-3 # high\nmax_iters = 5000\nlr_decay_iters = 5000\nmin_lr = 1e-4\n"
            "beta2 = 0.99\nwarmup_iters = 100\nwandb_log = False\nalways_save_checkpoint = False\n")
        self.run_lockstep("train", "config/train_shakespeare_char.py", *flags)
        self.assertEqual([e[:4] for e in self.numbers("out-mine")],
                         [e[:4] for e in self.numbers("out-shakespeare-char")])
        (self.folder / "bad.py").write_text("n_layer = 2\nimport os\n")
        self.fails(2, "train", "bad.py", error="bad.py:2")

    def test_folders(self):
        self.train("--out-dir=out")
        self.fails(2, "train", *SMALL, "--out-dir=out", error="not empty", hint="--out-dir out-2")
        self.fails(2, "train", "--resume", "--out-dir=nothing", error="no such folder")
        self.fails(2, "train", "--resume", "--out-dir=out", "--n-layer=5", error="n_layer = 5")
        self.assertIn("evaluated before", self.run_lockstep("train", "--resume", "--out-dir=out").stdout)

    def test_non_finite_numbers(self):
        done = self.fails(5, "train", *SMALL, "--out-dir=out", "--max-iters=100", "--learning-rate=9",
                          "--weight-decay=9", "--no-decay-lr", error="cannot apply step",
                          hint="--learning-rate")
        self.assertIn("out/checkpoints/", done.stderr)
        self.run_lockstep("inspect", "out")

    def interrupt(self, number, code):
        out = f"stopped-{number}"
        with subprocess.Popen([LOCKSTEP, "train", *SMALL, "--max-iters=100000", "--lr-decay-iters=100000",
                               "--checkpoint-interval=0", "--eval-interval=0", f"--out-dir={out}"],
                              cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            shown = ""
            for line in process.stdout:
                shown += line
                if line.startswith("step 1/"):
                    break
            process.send_signal(number)
            rest, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, shown + rest + stderr)
        self.assertIn(f"lockstep train --resume --out-dir {out}", rest)
        stopped_at = self.events(out, "step")[-1]["step"]
        self.assertLess(stopped_at, 100000)
        self.assertEqual(self.events(out, "end")[-1]["reason"], "interrupted")
        return out, stopped_at

    def test_interrupted_and_resumed_is_as_if_never_stopped(self):
        first, stopped_at = self.interrupt(signal.SIGTERM, 143)
        target = stopped_at + 5
        self.run_lockstep("train", "--resume", f"--out-dir={first}", f"--max-iters={target}")
        self.run_lockstep("train", *SMALL, f"--max-iters={target}", "--lr-decay-iters=100000",
                          "--eval-interval=0",
                          "--checkpoint-interval=0", "--out-dir=whole")
        self.assertEqual(self.numbers(first), self.numbers("whole"))
        self.assertEqual(self.weights(first, target), self.weights("whole", target))
        self.assertEqual(self.events(first, "eval")[-1]["val_loss"], self.events("whole",
                                                                                 "eval")[-1]["val_loss"])

    def test_ctrl_c(self):
        self.interrupt(signal.SIGINT, 130)

    def test_damaged_checkpoints(self):
        self.train("--out-dir=out")
        newest = self.folder / "out/checkpoints/10/model.safetensors"
        newest.write_bytes(newest.read_bytes()[:-7])
        inspected = self.run_lockstep("inspect", "out").stdout
        self.assertIn("checkpoints/10: damaged", inspected)
        resumed = self.run_lockstep("train", "--resume", "--out-dir=out")
        self.assertIn("resuming from out/checkpoints/8", resumed.stdout)
        self.assertIn("warning: ", resumed.stderr)
        for step in (8, 10):
            (self.folder / f"out/checkpoints/{step}/state.json").write_text("{")
        self.fails(3, "train", "--resume", "--out-dir=out", error="out/checkpoints/10")
        self.fails(3, "sample", "out")
        self.fails(3, "inspect", "out")

    def test_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = shutil.which("mount") and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False)
        if not mounted or mounted.returncode != 0:
            self.skipTest("SKIPPED: no right to mount a tmpfs, so the full disk was not tried")
        try:
            done = self.fails(8, "train", *SMALL, "--out-dir=disk/out", "--max-iters=4000",
                              "--keep-checkpoints=9",
                              error="No space left on device")
            self.assertRegex(done.stderr, r"hint: the state after step \d+ is in disk/out/checkpoints/\d+")
            self.assertIn("sound", self.run_lockstep("inspect", "disk/out").stdout)
        finally:
            subprocess.run(["umount", str(disk)], check=True)

    def test_unwritable_folder(self):
        (self.folder / "file").write_text("")
        self.fails(8, "train", *SMALL, "--max-iters=1", "--warmup-iters=0", "--out-dir=file/out",
                   error="file/out")


class Steps(Case):
    def test_bench_step_prints_one_json_line(self):
        done = self.run_lockstep("bench", "step", "--shape=tiny", "--steps=2", "--warmup=1", "--no-peak",
                                 "--json")
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertGreater(result["tokens_per_s"], 0)
        self.fails(2, "bench", "step", "--shape=huge", error="huge")
        self.fails(2, "bench", "step", "--dtype=fp8", error="fp8")

    def test_inspect_step_names_the_missing_flag_and_file(self):
        self.fails(2, "inspect", "step", "--config=c.json", error="needs --init")
        done = self.run_lockstep("inspect", "step", "--config=c.json", "--init=w", "--batch=b", "--out=o",
                                 expect=8)
        self.assertIn("c.json", done.stderr)


def main():
    global LOCKSTEP
    parser = argparse.ArgumentParser()
    parser.add_argument("--lockstep", required=True)
    options, rest = parser.parse_known_args()
    LOCKSTEP = os.path.abspath(options.lockstep)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
