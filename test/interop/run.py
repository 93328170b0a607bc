#!/usr/bin/env python3
"""What numpy.save writes is a tensor, and a tensor is what numpy.save would write.

For every type: bytes of numpy.save in, whatever their version, order and endianness; out come the bytes that numpy.save
writes for the same array in C order and little-endian. Prints TAP.
"""

import io
import os
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
from tap import SqlError, Tap, ints, literal, load, npy, query, value

TYPES = {
    'float32': np.float32, 'float64': np.float64, 'float16': np.float16, 'bfloat16': ml_dtypes.bfloat16,
    'uint8': np.uint8, 'int8': np.int8, 'int32': np.int32, 'int64': np.int64, 'bool': np.bool_,
}
SHAPES = [(), (1,), (5,), (2, 3), (2, 3, 4), (0,), (3, 0, 2), (1, 2, 1, 2, 1, 2, 1, 2)]


def sample(rng, dtype, shape):
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in 'iu':
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    array = np.asarray(rng.normal(0, 100, shape).astype(dtype))
    special = [np.nan, np.inf, -np.inf, -0.0, np.finfo(np.float32).tiny if dtype != np.float16 else 6e-8]
    flat = array.reshape(-1)
    flat[:len(special)] = np.asarray(special, dtype)[:flat.size]
    return array


def save(array, version=None):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version, allow_pickle=False)
    return buffer.getvalue()


def round_trip(data):
    """The value with its elements written anew: tensor_reshape to its own shape."""
    return value(f'tensor_reshape({literal(data)}, tensor_shape({literal(data)}))')


def check_types(tap, rng):
    for name, dtype in TYPES.items():
        for shape in SHAPES:
            array = sample(rng, dtype, shape)
            tap.ok(round_trip(npy(array)) == npy(array), f'{name} {shape}: the same bytes')
        array = sample(rng, dtype, (3, 4))
        tap.ok(query(f'SELECT tensor_dtype({literal(array)}), tensor_shape({literal(array)})') == f'{name}|{{3,4}}',
               f'{name}: type and shape')
        tap.ok(value(f'tensor_raw({literal(array)})') == array.tobytes(), f'{name}: the raw elements')
        made = value(f"tensor({literal(array.tobytes())}, '{{3,4}}', '{name}')")
        tap.ok(made == npy(array), f'{name}: made of raw elements')
        tap.ok(round_trip(npy(np.asfortranarray(array))) == npy(array), f'{name}: Fortran order')
        if np.dtype(dtype).itemsize > 1 and name != 'bfloat16':
            swapped = array.astype(np.dtype(dtype).newbyteorder('>'))
            tap.ok(round_trip(npy(swapped)) == npy(array), f'{name}: big-endian')
        for version in [(1, 0), (2, 0), (3, 0)]:
            tap.ok(round_trip(save(array, version)) == npy(array), f'{name}: format {version}')


def check_functions(tap, rng):
    for name in ['float32', 'float64', 'float16', 'bfloat16']:
        full = np.full((2, 3), 1.5, TYPES[name])
        tap.ok(value(f"tensor_full('{{2,3}}', 1.5, '{name}')") == npy(full), f'tensor_full {name}')
        random = load(value(f"tensor_random('{{50,40}}', 7, '{name}')"))
        exact = random.astype(np.float64)
        tap.ok(random.shape == (50, 40) and exact.min() >= -1 and exact.max() < 1 and
               abs(exact.mean()) < 0.05 and abs(exact.std() - 3 ** -0.5) < 0.05, f'tensor_random {name} is uniform')
        relu = load(value(f"relu({literal(random)})"))
        tap.ok(np.array_equal(relu.astype(np.float64), np.maximum(exact, 0)), f'relu {name}')
    for source, a in TYPES.items():
        for target, b in TYPES.items():
            array = np.asarray([[0, 1, 2], [3, 100, 127]]).astype(a)
            tap.ok(value(f"tensor_cast({literal(array)}, '{target}')") == npy(array.astype(b)),
                   f'tensor_cast {source} to {target}')
    wide = rng.normal(0, 1, 3000) * 10.0 ** rng.integers(-9, 9, 3000)
    for name in ['float32', 'float16', 'bfloat16']:
        with np.errstate(over='ignore'):
            cast = npy(wide.astype(TYPES[name]))
        tap.ok(value(f"tensor_cast({literal(wide)}, '{name}')") == cast, f'tensor_cast rounds to {name} as NumPy')


def check_text(tap, rng):
    arrays = [
        np.arange(12.).reshape(3, 4), np.arange(6, dtype=np.int32).reshape(2, 3), np.array([True, False]),
        np.array(3.5, np.float32), np.array(7), np.zeros((0, 3)), rng.random((3, 5)).astype(np.float32),
        rng.random((2, 3, 30)), np.array([1e10, 1.5]), np.array([1e-5, 1.]), np.array([np.nan, np.inf, -np.inf, 1.25]),
        rng.random((40, 50)), np.arange(3000).reshape(10, 10, 30), rng.random((2, 3)).astype(np.float16),
        np.array([123456789., 1]), np.array(1 / 3), np.array([0., 0.]), rng.integers(-99, 99, 40), np.array([True, True]),
        2.0 ** -np.arange(9, dtype=np.float16), np.array(2.0 ** -6, np.float16), np.array([1e-4, 1], np.float32),
        np.array([0.1, 234.5678, 3e-8], np.float32), np.array([-np.inf, 1e-3, np.nan]), np.array(np.nan),
    ]
    for array in arrays:
        tap.ok(query(f'SELECT tensor_text({literal(array)})') == str(array),
               f'tensor_text of {array.dtype} {array.shape}')


def check_refused(tap):
    good = npy(np.arange(6, dtype=np.float32))
    object_array = io.BytesIO()
    np.save(object_array, np.array([{}], dtype=object), allow_pickle=True)
    bad = {
        'nothing': b'', 'a truncated header': good[:60], 'a truncated payload': good[:-1], 'a longer payload': good + b'\0',
        'complex numbers': npy(np.zeros(2, np.complex64)), 'strings': npy(np.array(['ab'])),
        'a record': npy(np.zeros(2, [('a', 'f4')])), 'objects': object_array.getvalue(),
        'rank 9': npy(np.zeros((1,) * 9, np.float32)), 'uint16': npy(np.zeros(2, np.uint16)),
        'format 4.0': good[:6] + b'\4' + good[7:], 'a negative size': good.replace(b'(6,)', b'(-6,)'.ljust(4)),
    }
    for name, data in bad.items():
        try:
            value(f'relu({literal(data)})')
            tap.ok(False, f'{name} is refused', 'it was taken')
        except SqlError as error:
            tap.ok(error.sqlstate == '22P03', f'{name} is refused', error)
        tap.ok(query(f'SELECT tensor_is_valid({literal(data)})') == 'f', f'{name} is not valid')


def main():
    tap = Tap()
    rng = np.random.default_rng(1)
    check_types(tap, rng)
    check_functions(tap, rng)
    check_text(tap, rng)
    check_refused(tap)
    tap.done()


if __name__ == '__main__':
    main()
