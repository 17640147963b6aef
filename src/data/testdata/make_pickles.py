#!/usr/bin/env python3
"""Writes the pickles that pickle_test.cc reads, as CPython emits them, beside this file.

meta_pN.pkl: a small nanoGPT vocabulary in protocol N, with characters that protocol 0 must escape and, under
"notes", integers of every width. wide_pN.pkl: 1,200 characters, so that memo numbers need more than a byte
and items come in more than one batch (CPython writes 1,000 at a time).
"""
import pathlib
import pickle

HERE = pathlib.Path(__file__).resolve().parent


def meta(characters):
    return {
        "vocab_size": len(characters),
        "itos": dict(enumerate(characters)),
        "stoi": {character: i for i, character in enumerate(characters)},
    }


small = meta(sorted("\n !\\az\x00\x1a\r\u00e9\u4f60\U0001f30d"))
small["notes"] = {"byte": 200, "word": 300, "int": 70000, "negative": -5, "long": 1 << 40, "low": -(1 << 40)}
for protocol in range(6):
    (HERE / f"meta_p{protocol}.pkl").write_bytes(pickle.dumps(small, protocol))
wide = meta([chr(0x4E00 + i) for i in range(1200)])
for protocol in (0, 2, 4):
    (HERE / f"wide_p{protocol}.pkl").write_bytes(pickle.dumps(wide, protocol))
