# a configuration
out_dir = 'out-x' # here
batch_size = 12
gradient_accumulation_steps = 5 * (8 - 2) // 3
learning_rate = 6e-4
min_lr = learning_rate / 10
bias = False
max_iters = 2 ** 10
dataset = "a\n"
init_from = None
