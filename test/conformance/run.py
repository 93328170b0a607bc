#!/usr/bin/env python3
"""ONNX's own node tests of the operations that we have, each as one SQL call.

The models, inputs and outputs are those of Debian's package libonnx-testdata, in data/node; ONNX_TESTDATA names another
folder of that layout. Runs on the server and provider that the environment gives (PGHOST, PGOPTIONS, ...) and prints TAP.
"""

import glob
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
from tap import SqlError, Tap, ints, literal, load, value

FOLDER = os.environ.get('ONNX_TESTDATA', '/usr/share/libonnx-testdata/data/node')
FAMILIES = ['conv', 'convtranspose', 'maxpool', 'averagepool', 'batchnorm', 'globalaveragepool', 'globalmaxpool']


class Outside(Exception):
    """The case needs what the SQL surface does not have."""


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def same_pads(attr, kernel, sizes):
    """The pads that auto_pad asks for: the output has ceil(size / stride) elements."""
    strides = attr.get('strides', [1] * len(kernel))
    dilations = attr.get('dilations', [1] * len(kernel))
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(large if attr['auto_pad'] == b'SAME_LOWER' else small)
        ends.append(small if attr['auto_pad'] == b'SAME_LOWER' else large)
    return begins + ends


def pads(attr, kernel, sizes):
    mode = attr.get('auto_pad', b'NOTSET')
    if mode in (b'SAME_UPPER', b'SAME_LOWER'):
        return same_pads(attr, kernel, sizes)
    if mode == b'VALID':
        return [0] * (2 * len(kernel))
    return attr.get('pads', [0] * (2 * len(kernel)))


def window(attr, kernel, sizes, dilation=True):
    """Named arguments that convolution and pooling share."""
    args = [f"stride => {ints(attr.get('strides', [1] * len(kernel)))}",
            f'padding => {ints(pads(attr, kernel, sizes))}']
    if dilation:
        args.append(f"dilation => {ints(attr.get('dilations', [1] * len(kernel)))}")
    return ', '.join(args)


def conv(attr, x, w, b=None):
    kernel = w.shape[2:]
    return [f'conv{len(kernel)}d({literal(x)}, {literal(w)}, {literal(b)}, {window(attr, kernel, x.shape[2:])}, '
            f"groups => {attr.get('group', 1)})"]


def conv_transpose(attr, x, w, b=None):
    """output_shape or auto_pad say what the pads must be; the rest is output_padding's."""
    kernel, sizes = w.shape[2:], x.shape[2:]
    n = len(kernel)
    attr = {'strides': [1] * n, 'dilations': [1] * n, 'output_padding': [0] * n, **attr}
    full = [s * (size - 1) + o + d * (k - 1) + 1 for s, size, o, d, k in
            zip(attr['strides'], sizes, attr['output_padding'], attr['dilations'], kernel)]
    want = attr.get('output_shape')
    if want is None and attr.get('auto_pad', b'NOTSET') in (b'SAME_UPPER', b'SAME_LOWER'):
        want = [size * s for size, s in zip(sizes, attr['strides'])]
    if want is not None:
        total = [f - v for f, v in zip(full, want)]
        # what is wanted beyond the full size is padding of the output
        attr['output_padding'] = [o + max(-t, 0) for o, t in zip(attr['output_padding'], total)]
        total = [max(t, 0) for t in total]
        half = [t // 2 for t in total]
        rest = [t - h for t, h in zip(total, half)]
        attr['pads'] = half + rest if attr.get('auto_pad') == b'SAME_UPPER' else rest + half
        attr.pop('auto_pad', None)
    return [f'conv_transpose{n}d({literal(x)}, {literal(w)}, {literal(b)}, {window(attr, kernel, sizes)}, '
            f"output_padding => {ints(attr['output_padding'])}, groups => {attr.get('group', 1)})"]


def max_pool(attr, x):
    if attr.get('storage_order', 0) != 0:
        raise Outside('storage_order')
    if x.dtype.kind != 'f':
        raise Outside(f'{x.dtype} input')
    kernel = attr['kernel_shape']
    return [f"max_pool{len(kernel)}d({literal(x)}, {ints(kernel)}, {window(attr, kernel, x.shape[2:])}, "
            f"ceil_mode => {bool(attr.get('ceil_mode', 0))})"]


def average_pool(attr, x):
    if any(d != 1 for d in attr.get('dilations', [])):
        raise Outside('dilation of an average')
    kernel = attr['kernel_shape']
    return [f"avg_pool{len(kernel)}d({literal(x)}, {ints(kernel)}, {window(attr, kernel, x.shape[2:], dilation=False)}, "
            f"ceil_mode => {bool(attr.get('ceil_mode', 0))}, count_include_pad => {bool(attr.get('count_include_pad', 0))})"]


def batch_norm(attr, x, scale, bias, mean, var):
    eps, momentum = attr.get('epsilon', 1e-5), attr.get('momentum', 0.9)
    if not attr.get('training_mode', 0):
        return [f'batch_norm({literal(x)}, {literal(mean)}, {literal(var)}, {literal(scale)}, {literal(bias)}, {eps})']
    # ONNX keeps `momentum` of the old statistics, PyTorch takes that much of the new ones
    call = (f'(batch_norm_train({literal(x)}, {literal(scale)}, {literal(bias)}, {literal(mean)}, {literal(var)}, '
            f'{1 - momentum}, {eps}))')
    # and its running variance takes the variance of the batch over m, not over m - 1
    m = x.size // x.shape[1]
    biased = (f"tensor(ARRAY(SELECT {momentum} * old + (new - {momentum} * old) * {m - 1} / {m} FROM "
              f'unnest(tensor_to_real({literal(var)}), tensor_to_real({call}.running_var)) AS u(old, new))::real[])')
    return [f'{call}.output', f'{call}.running_mean', biased]


OPERATIONS = {
    'Conv': conv,
    'ConvTranspose': conv_transpose,
    'MaxPool': max_pool,
    'AveragePool': average_pool,
    'BatchNormalization': batch_norm,
    'GlobalAveragePool': lambda attr, x: [f'global_avg_pool({literal(x)})'],
    'GlobalMaxPool': lambda attr, x: [f'global_max_pool({literal(x)})'],
}


def tensors(folder, kind):
    """The stored inputs or outputs of a case, in order."""
    found = []
    while os.path.exists(path := os.path.join(folder, f'{kind}_{len(found)}.pb')):
        with open(path, 'rb') as f:
            found.append(numpy_helper.to_array(onnx.TensorProto.FromString(f.read())))
    return found


def run_case(tap, case):
    name = os.path.basename(case)
    (node,) = onnx.load(os.path.join(case, 'model.onnx')).graph.node
    try:
        if node.op_type not in OPERATIONS:
            raise Outside(f'operation {node.op_type}')
        if node.op_type == 'MaxPool' and len(node.output) > 1:
            raise Outside('output of indices')
        for data in sorted(glob.glob(os.path.join(case, 'test_data_set_*'))):
            calls = OPERATIONS[node.op_type](attributes(node), *tensors(data, 'input'))
            expected = tensors(data, 'output')
            if len(calls) != len(expected):
                raise Outside(f'{len(expected)} outputs')
            worst = 0
            for call, want in zip(calls, expected):
                got = load(value(call))
                if got.shape != want.shape:
                    tap.ok(False, name, f'shape {got.shape}, wanted {want.shape}')
                    return
                worst = max(worst, float(np.max(np.abs(got - want) / (1e-6 + 1e-5 * np.abs(want)))))
            tap.ok(worst <= 1, name, f'error is {worst} times the tolerance')
    except Outside as reason:
        tap.skip(name, f'outside the surface: {reason}')
    except SqlError as error:
        if error.sqlstate == '0A000':
            tap.skip(name, f'the provider cannot: {error}'.splitlines()[0])
        else:
            tap.ok(False, name, error)


def main():
    tap = Tap()
    cases = [c for f in FAMILIES for c in sorted(glob.glob(os.path.join(FOLDER, f'test_{f}*')))]
    for case in dict.fromkeys(cases):
        run_case(tap, case)
    tap.done()


if __name__ == '__main__':
    main()
