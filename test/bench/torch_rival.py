"""What a user of PyTorch would run, eager, on the same device as the extension."""

import ctypes
import functools
import time

import torch
import torch.nn.functional as F

LAYOUTS = {'contiguous': torch.contiguous_format, 'channels_last': torch.channels_last}
TYPES = {'strict': torch.float32, 'tf32': torch.float32, 'bf16': torch.bfloat16}

# A first convolution in a fresh process, with the copies.
COLD = '''import torch, torch.nn.functional as F
device = "{device}"
x, w, b = torch.rand(1, 1, 28, 28), torch.rand(8, 1, 5, 5), torch.rand(8)
print(F.conv2d(x.to(device), w.to(device), b.to(device)).cpu().sum())'''


class Torch:
    def __init__(self, device, threads=None):
        self.device = device
        if threads:
            torch.set_num_threads(threads)
        torch.backends.cudnn.benchmark = True
        torch.set_grad_enabled(False)
        self.wait()

    def wait(self):
        if self.device == 'cuda':
            torch.cuda.synchronize()

    def mode(self, mode):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = mode == 'tf32'

    @functools.lru_cache(16)
    def tensor(self, shape, mode='strict', layout='contiguous', positive=False):
        """Random; the same one for the same arguments while few others are asked for."""
        t = torch.rand(shape, device=self.device) if positive else torch.rand(shape, device=self.device) * 2 - 1
        return t.to(TYPES[mode], memory_format=LAYOUTS[layout] if len(shape) == 4 else torch.preserve_format)

    def time(self, call, calls):
        """Microseconds a call."""
        begin = time.perf_counter()
        for _ in range(calls):
            y = call()
        self.wait()
        del y
        return (time.perf_counter() - begin) * 1e6 / calls

    def conv(self, p, mode, layout, round_us):
        """A convolution, made as time_conv in bench.sql makes it."""
        self.mode(mode)
        x, w = self.tensor(p.x, mode, layout), self.tensor(p.w, mode, layout)

        def call():
            return F.conv2d(x, w, None, p.stride, p.padding, p.dilation, p.groups)
        self.time(call, 1)
        us = self.time(call, 1)
        return us if us > round_us / 2 else self.time(call, max(1, min(300, round(round_us / us))))

    def stem(self, n, mode, layout, calls):
        self.mode(mode)
        x, w = self.tensor((n, 3, 224, 224), mode, layout), self.tensor((64, 3, 7, 7), mode, layout)
        mean, gamma, beta = (self.tensor((64,)) for _ in range(3))
        var = self.tensor((64,), positive=True) + 0.5

        def call():
            return F.max_pool2d(F.relu(F.batch_norm(F.conv2d(x, w, None, 2, 3), mean, var, gamma, beta)), 3, 2, 1)
        self.time(call, 1)
        return self.time(call, calls)

    def upload(self, elements):
        """Microseconds of a copy to the device from ordinary memory."""
        x = torch.rand(elements)
        self.time(lambda: x.to(self.device), 1)
        return self.time(lambda: x.to(self.device), 1)

    def relu_bytes(self, address, size):
        """relu of the float32 at an address in ordinary memory, back there: a tensor that owns its bytes."""
        raw = torch.frombuffer((ctypes.c_ubyte * size).from_address(address), dtype=torch.uint8)
        raw = raw.to(self.device) if self.device != 'cpu' else raw.clone()
        return F.relu(raw.view(torch.float32)).cpu()

    def free_bytes(self):
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]
