"""The shapes of `lockstep bench step`."""

COLUMNS = ("n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias", "batch", "time")
SHAPES = {
    name: dict(zip(COLUMNS, values))
    for name, *values in (
        ("tiny", 4, 4, 128, 64, 65, False, 12, 64),
        ("baby", 6, 6, 384, 256, 65, False, 16, 256),
        ("gpt2", 12, 12, 768, 1024, 50304, True, 4, 256),
    )
}
