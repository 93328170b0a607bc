"""What the Python tests share: tensors to and from SQL through psql, and TAP output."""

import io
import subprocess
import sys

import ml_dtypes
import numpy as np


class SqlError(Exception):
    """An error of the server: its SQLSTATE and message."""

    def __init__(self, text):
        super().__init__(text)
        first = text.splitlines()[0] if text else ''
        self.sqlstate = first.split(':')[1].strip() if first.count(':') > 1 else ''


def npy(array):
    """The bytes that numpy.save writes."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def literal(value):
    """A SQL literal: bytea of an array or of bytes, NULL of None."""
    if value is None:
        return 'NULL'
    data = value if isinstance(value, bytes) else npy(value)
    return f"'\\x{data.hex()}'::bytea"


def ints(values):
    """A SQL literal of int[]."""
    return "'{" + ','.join(str(int(v)) for v in values) + "}'"


def query(sql):
    """The one value of a query as text; SqlError when it fails."""
    done = subprocess.run(['psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-f', '-'],
                          input=sql, capture_output=True, text=True)
    if done.returncode != 0:
        raise SqlError(done.stderr.replace('psql:<stdin>:', '').split(': ', 1)[-1])
    return done.stdout[:-1]


def value(sql):
    """The bytes of a query that gives a bytea."""
    return bytes.fromhex(query(f'SELECT {sql}')[2:])


def load(data):
    """The array in a .npy file; NumPy reads '<V2' as raw bytes, which is bfloat16."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array.view(ml_dtypes.bfloat16) if array.dtype.kind == 'V' else array


class Tap:
    """Counts and prints results; exits with 1 when one failed."""

    def __init__(self):
        self.count = self.failed = self.skipped = 0

    def ok(self, passed, name, why=''):
        self.count += 1
        self.failed += not passed
        print(f"{'ok' if passed else 'not ok'} {self.count} - {name}")
        if not passed and why:
            print('# ' + str(why).replace('\n', '\n# '))

    def skip(self, name, reason):
        self.count += 1
        self.skipped += 1
        print(f'ok {self.count} - {name} # SKIP {reason}')

    def done(self):
        print(f'1..{self.count}')
        print(f'# {self.count - self.failed - self.skipped} passed, {self.skipped} skipped, {self.failed} failed')
        sys.exit(1 if self.failed or self.count == 0 else 0)
