"""The rows of the benchmark; README.md says what each measures. Usage: bench.py cpu|gpu, from `run`."""

import csv
import ctypes
import os
import random
import statistics
import subprocess
import sys
import time
from collections import namedtuple

from pq import Session
from report import Report

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ['OUT']
GPU = sys.argv[1] == 'gpu'
PROVIDER = 'cudnn' if GPU else 'onednn'
THREADS = int(os.environ.get('BENCH_THREADS') or len(os.sched_getaffinity(0)))
TYPES = {'strict': 'float32', 'tf32': 'float32', 'bf16': 'bfloat16'}
LAYOUTS = ['contiguous', 'channels_last']
MODES = ['strict', 'tf32', 'bf16'] if GPU else ['strict']
ROWS = os.environ.get('BENCH_ROWS', 'a b d e f g c h i').split()
CONV_SECONDS = int(os.environ.get('BENCH_SECONDS') or (100 if GPU else 300))    # for the lists of convolutions
ROUND_US = 10000 if GPU else 20000
POOL = 32 * 256 * 56 * 56     # elements of the biggest tensor in the lists
SMALL = 'FROM images, weights'
IMAGES = 2000
FEW = 40        # whose nested calls fit in the device's queue

Problem = namedtuple('Problem', 'list name x w stride padding dilation groups')


def problems(name):
    """The convolutions of a file of shapes."""
    found = []
    with open(f'{HERE}/shapes/{name}.csv') as file:
        for r in csv.DictReader(file):
            v = {key: int(value) for key, value in r.items() if key != 'name'}
            found.append(Problem(f'{name} N={v["n"]}' if name.startswith('resnet') else name,
                                 f'{r["name"]} {v["n"]}x{v["c"]}x{v["h"]}x{v["w"]} {v["k"]}x{v["r"]}x{v["s"]}',
                                 (v['n'], v['c'], v['h'], v['w']), (v['k'], v['c'] // v['groups'], v['r'], v['s']),
                                 (v['stride_h'], v['stride_w']), (v['pad_h'], v['pad_w']), (v['dil_h'], v['dil_w']), v['groups']))
    return found


class Bare:
    """A C program that answers each line of its input with one of its output."""

    def __init__(self, name):
        self.process = subprocess.Popen([f'{OUT}/{name}'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, OMP_NUM_THREADS=str(THREADS)))

    def read(self):
        answer = self.process.stdout.readline()
        if not answer or answer.startswith('error'):
            raise RuntimeError(answer.strip() or f'ended with {self.process.wait()}')
        return answer.split()

    def ask(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        return [float(v) for v in self.read()]

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


class BareConv(Bare):
    """bare_conv after its first call; `context` and `memory` are [resident, anonymous, what measure() says] in MB."""

    def __init__(self, measure=lambda: 0):
        super().__init__('bare_conv')
        self.context = [*self.read_mb(), measure()]
        self.process.stdin.write('\n')
        self.process.stdin.flush()
        self.read()
        self.memory = [*self.read_mb(), measure()]

    def read_mb(self):
        return [int(kb) / 1024 for kb in self.read()[1:]]


def optional(what, make):
    """make(), or None after saying why not."""
    try:
        return make()
    except Exception as error:
        print(f'{what}: {type(error).__name__}: {error}', flush=True)
        return None


def make_torch():
    from torch_rival import Torch
    return Torch('cuda' if GPU else 'cpu', THREADS)


def ints(values):
    return "'{" + ','.join(map(str, values)) + "}'"


def draw(sql):
    """Fills the pool that big tensors are made of, once."""
    if sql.number('SELECT count(*) FROM pool') == 0:
        dtypes = ','.join(sorted({TYPES[mode] for mode in MODES}))
        sql.query(f"SELECT draw({POOL}, '{{{dtypes}}}')")


def timed(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e6


# Rows -----------------------------------------------------------------------


def row_a(report, sql, torch):
    """A small convolution, warm, copies and all."""
    query = f'SELECT count(get_byte(conv2d(img, w, bias), 0)) {SMALL}'
    sides = {'sql': lambda: timed(lambda: sql.query(query)) / IMAGES,
             'scan alone': lambda: timed(lambda: sql.query(f'SELECT count(get_byte(img, 0)) {SMALL}')) / IMAGES}
    if GPU:
        bare = optional('bare_conv', BareConv)
        if bare:
            sides['bare'] = lambda: bare.ask(str(IMAGES))[0]
    else:
        bare = optional('bare_dnnl', lambda: Bare('bare_dnnl'))
        if bare:
            sides['bare'] = lambda: min(bare.ask('1 1 28 28 8 5 5 0 0 1 1 1 1 1 20')[1:])
    if torch:
        sides['torch'] = lambda: torch_small(torch)
    sql.query(query)
    m = report.interleave('a', 'conv 1x1x28x28, 8 of 5x5', sides, 9)
    what = 'small conv, warm'
    report.line('a', what, m.get('sql'), 'bare C', m.get('bare'), '1.25' if GPU else '')
    report.line('a', what + ', beyond the scan', m['sql'] - m['scan alone'], 'bare C', m.get('bare'), '1.25' if GPU else '')
    report.line('a', what, m.get('sql'), 'torch', m.get('torch'))
    if bare:
        bare.close()


def torch_small(torch):
    import torch as t
    w, b = t.rand(8, 1, 5, 5).to(torch.device), t.rand(8).to(torch.device)
    x = t.rand(1, 1, 28, 28)
    return torch.time(lambda: t.nn.functional.conv2d(x.to(torch.device), w, b).cpu(), 300)


def row_b(report, sql, torch):
    """What each further nested operation costs the host, while the device's queue has room."""
    def nest(depth):
        expression = 'relu(' * depth + 'img' + ')' * depth
        query = f'SELECT count(tensor_rank({expression})) FROM (SELECT img FROM images LIMIT {FEW}) AS few'

        def host():
            sql.query('SELECT get_byte(relu(img), 0) FROM images LIMIT 1')
            return timed(lambda: sql.query(query)) / FEW
        return host

    sides = {'nest of 1': nest(1), 'nest of 11': nest(11)}
    bare = optional('bare_conv', BareConv) if GPU else None
    if bare:
        sides['bare'] = lambda: bare.ask(str(-10 * FEW))[0]
    nest(1)(), nest(11)()
    m = report.interleave('b', 'relu 1x1x28x28', sides, 25)
    each = (m['nest of 11'] - m['nest of 1']) / 10
    report.put('b', 'relu 1x1x28x28', 'each further', 0, each)
    report.line('b', 'each further nested relu', each, 'bare C', m.get('bare'), '+1.5 us' if GPU else '')
    if bare:
        bare.close()


def sql_conv(sql, p, mode, autotune):
    return sql.number(f'''SELECT time_conv('{TYPES[mode]}', {mode == "tf32"}, {autotune}, {ints(p.stride)}, {ints(p.padding)},
                          {ints(p.dilation)}, {p.groups}, {ROUND_US})''')


def torch_sides(mode):
    return [f'torch {mode} {layout}' for layout in LAYOUTS]


def conv_sides(sql, torch, p, mode):
    """The sides of a convolution, {name: function}."""
    sides = {f'sql {mode}': lambda: sql_conv(sql, p, mode, False)}
    if GPU:
        sides[f'sql {mode} autotune'] = lambda: sql_conv(sql, p, mode, True)
    for layout in LAYOUTS if torch else ():
        sides[f'torch {mode} {layout}'] = lambda layout=layout: torch.conv(p, mode, layout, ROUND_US)
    return sides


def conv_lists(report, row, sql, torch, extra, lines):
    """Measures lists of convolutions within the time there is; lines(list, medians) writes the lines of a list."""
    end = time.monotonic() + CONV_SECONDS
    medians = {}
    draw(sql)
    todo = problems('resnet50_conv') + problems('deepbench_conv')
    random.Random(2).shuffle(todo)
    if not GPU:
        todo.sort(key=lambda p: p.x[0])     # where a big one takes a second the many small ones come first
    for done, p in enumerate(todo):
        if time.monotonic() > end:
            print(f'row {row}: time is up after {done} of {len(todo)} problems')
            break
        if not optional(f'row {row}, {p.name}', lambda: sql.query(f'SELECT set_problem({ints(p.x)}, {ints(p.w)})')):
            break
        sides = {}
        for mode in MODES:
            sides.update(conv_sides(sql, torch, p, mode))
        sides.update(extra(p))
        medians.setdefault(p.list, []).append(report.interleave(row, p.name, sides, 3))
    for name in sorted(medians):
        lines(name, medians[name])


def row_c(report, sql, torch):
    """Convolutions of resident tensors."""
    def lines(name, medians):
        for mode in MODES:
            report.ratios('c', f'{name} {mode}', medians, f'sql {mode}', [f'sql {mode} autotune'], '1.10')
            report.ratios('c', f'{name} {mode}', medians, f'sql {mode}',
                          torch_sides(mode), '1.00')
            report.ratios('c', f'{name} {mode} autotune', medians, f'sql {mode} autotune',
                          torch_sides(mode))

    conv_lists(report, 'c', sql, torch, lambda p: {}, lines)


def row_h(report, sql, torch):
    """Convolutions on the CPU."""
    bare = optional('bare_dnnl', lambda: Bare('bare_dnnl'))

    def extra(p):
        last = []

        def ask(i):
            if i == 0:
                n, c, h, w = p.x
                k, _, r, s = p.w
                options = *p.padding, *p.stride, *p.dilation, p.groups, ROUND_US / 1000
                last[:] = bare.ask(' '.join(map(str, (n, c, h, w, k, r, s, *options))))
            return last[i]

        names = ['oneDNN without reorders', 'oneDNN with reorders', 'oneDNN plain']
        return {name: lambda i=i: ask(i) for i, name in enumerate(names)} if bare else {}

    def lines(name, medians):
        report.ratios('h', name, medians, 'sql strict', ['oneDNN with reorders', 'oneDNN plain'], '1.05')
        report.ratios('h', name, medians, 'sql strict', ['oneDNN without reorders'])
        report.ratios('h', name, medians, 'sql strict', torch_sides('strict'), '1.00')

    conv_lists(report, 'h', sql, torch, extra, lines)
    if bare:
        bare.close()


def row_d(report, sql, torch):
    """A big tensor out of a table, and back."""
    for megabytes in [64, 800] if os.environ.get('BENCH_BIG') else [64]:
        sql.query(f"TRUNCATE big; INSERT INTO big VALUES (tensor_random('{{{megabytes},512,512}}', 1))")
        big(report, sql, torch, megabytes)
        sql.query('TRUNCATE big, big_out')


def big(report, sql, torch, megabytes):
    what = f'{megabytes} MB'

    def fresh(write):
        sql.query('TRUNCATE big_out')
        return timed(write)

    def client(store):
        def compute(address, size):
            y = torch.relu_bytes(address + 128, size - 128)
            return ctypes.string_at(address, 128), y

        def both():
            header, y = sql.fetch_binary('SELECT x FROM big', compute)
            if store:
                sql.store_binary('big_out', [(header, 128), (y.data_ptr(), y.numel() * 4)])
        return both

    wait = ', (SELECT get_byte(relu(img), 0) FROM images LIMIT 1)' if GPU else ''
    sides = {
        'detoast': lambda: timed(lambda: sql.query('SELECT get_byte(x, 200) FROM big')),
        'sql input': lambda: timed(lambda: sql.query(f'SELECT tensor_rank(relu(x)){wait} FROM big')),
        'sql input and output': lambda: timed(lambda: sql.query('SELECT get_byte(relu(x), 200) FROM big')),
        'sql store': lambda: fresh(lambda: sql.query('INSERT INTO big_out SELECT relu(x) FROM big')),
        'store alone': lambda: fresh(lambda: sql.query("INSERT INTO big_out SELECT x || ''::bytea FROM big")),
    }
    if torch:
        sides['client'] = lambda: timed(client(False))
        sides['client store'] = lambda: fresh(client(True))
        if GPU:
            sides['upload'] = lambda: torch.upload(megabytes << 18)
    m = report.interleave('d', what, sides, 5 if megabytes < 100 else 3)
    detoast = m['detoast'] + m.get('upload', 0) if 'detoast' in m else None
    report.line('d', f'relu of {what}: in', m.get('sql input'), 'plain detoast + upload' if GPU else 'plain detoast', detoast,
                '0.75' if GPU else '')
    report.line('d', f'relu of {what}: in and out', m.get('sql input and output'), 'client in and out', m.get('client'))
    report.line('d', f'relu of {what}: in, out and stored', m.get('sql store'), 'client, and stored', m.get('client store'), '0.40' if GPU else '')
    report.line('d', f'relu of {what}: in, out and stored', m.get('sql store'), 'detoast and store alone', m.get('store alone'))


def row_e(report, sql, torch):
    """conv, batch norm, relu, max pool: the first layers of ResNet."""
    n = 32
    calls = 20 if GPU else 2
    draw(sql)
    for mode in MODES:
        sides = {'sql': lambda: sql.number(f"SELECT time_stem('{TYPES[mode]}', {mode == 'tf32'}, {n}, {calls})")}
        for layout in LAYOUTS if torch else ():
            sides[f'torch {layout}'] = lambda layout=layout: torch.stem(n, mode, layout, calls)
        m = report.interleave('e', f'ResNet stem N={n} {mode}', sides, 5 if GPU else 3)
        for layout in LAYOUTS:
            report.line('e', f'ResNet stem N={n} {mode}', m.get('sql'), f'torch {layout}', m.get(f'torch {layout}'), '0.85')


def row_f(report, sql, torch):
    """The first call of a fresh session or process."""
    def cold_sql():
        session = Session()
        session.query(f'SELECT get_byte(conv2d(img, w, bias), 0) {SMALL} LIMIT 1')
        return session

    def cold_torch():
        from torch_rival import COLD
        subprocess.run([sys.executable, '-c', COLD.format(device=torch.device)], check=True, stdout=subprocess.DEVNULL)

    def lasting(start):
        begin = time.perf_counter()
        started = start()
        us = (time.perf_counter() - begin) * 1e6
        if started:
            started.close()
        return us

    sides = {'sql': lambda: lasting(cold_sql)}
    if GPU:
        sides['bare'] = lambda: lasting(BareConv)
    if torch:
        sides['torch'] = lambda: lasting(cold_torch)
    m = report.interleave('f', 'first conv', sides, 3)
    if GPU:
        report.line('f', 'first call of a session', m.get('sql'), 'bare C process', m.get('bare'), '1.10')
    report.line('f', 'first call of a session', m.get('sql'), 'import torch and conv', m.get('torch'), '0.30')


def row_i(report, sql, torch):
    """What channels last, and a relu in the convolution's graph, give cuDNN alone."""
    bare = Bare('bare_layout')
    names = 'C order', 'channels last', 'reorder', 'with bias', 'fused relu', 'relu'
    measured = {}
    for p in problems('resnet50_conv') + problems('deepbench_conv'):
        for mode in MODES:
            values = bare.ask(' '.join(map(str, (*p.x, p.w[0], *p.w[2:], *p.padding, *p.stride, *p.dilation, p.groups, mode))))
            m = dict(zip(names, values))
            for name, us in m.items():
                report.put('i', f'{p.name} {mode}', name, 0, us)
            m['relu apart'] = m['with bias'] + m['relu']
            measured.setdefault(f'{p.list} {mode}', []).append({name: us for name, us in m.items() if us > 0})
    bare.close()
    for name, m in measured.items():
        report.ratios('i', f'{name} channels last', m, 'channels last', ['C order'])
        report.ratios('i', f'{name} fused relu', m, 'fused relu', ['relu apart'])


def host_memory(pid):
    """Resident and anonymous MB of a process."""
    with open(f'/proc/{pid}/status') as file:
        status = dict(line.split(':', 1) for line in file)
    return [int(status[key].split()[0]) / 1024 for key in ('VmRSS', 'RssAnon')]


def row_g(report, sql, torch):
    """Memory of a session."""
    free = torch.free_bytes if GPU and torch else lambda: 0
    start = free()

    def device():
        return (start - free()) / 2 ** 20

    names = ['before', 'after first call', 'idle', 'after release']
    steps = [f'SELECT count(get_byte(img, 0)) {SMALL}', f'SELECT get_byte(conv2d(img, w, bias), 0) {SMALL} LIMIT 1',
             'SELECT pg_sleep(1)', 'SELECT cudnn_ops_release()']
    seen = {}
    bare = optional('bare_conv', lambda: BareConv(device)) if GPU else None
    if bare:
        seen['bare C, context alone'], seen['bare C, after first call'] = bare.context, bare.memory
        bare.close()
    session = Session()
    pid = int(session.number('SELECT pg_backend_pid()'))
    for name, step in zip(names, steps):
        session.query(step)
        seen[name] = *host_memory(pid), device()
    session.close()
    for name, mb in seen.items():
        for kind, value in zip(('resident', 'anonymous', 'device'), mb):
            report.put('g', name, kind, 0, value, 'MB')

    def line(name, kind, rival='', goal=''):
        column = ('host', 'device').index(kind) + 1
        base = seen['before'][column]
        report.line('g', f'{kind}, {name}', seen[name][column] - base, rival, seen[rival][column] if rival in seen else None, goal, 'MB')

    for name in names[1:]:
        line(name, 'host', 'bare C, after first call' if GPU else '')
    if GPU:
        line('after first call', 'host', 'bare C, context alone', '+60 MB')
        for name in names[1:]:
            line(name, 'device', 'bare C, context alone', '+0 MB' if name == 'after release' else '')
        line('after first call', 'device', 'bare C, after first call')


def main():
    os.environ['PGOPTIONS'] = (f'-c search_path=cudnn_ops_bench,public -c jit=off -c max_parallel_workers_per_gather=0 '
                               f'-c client_min_messages=warning -c cudnn_ops.provider={PROVIDER} -c cudnn_ops.threads={THREADS}')
    begin = time.monotonic()
    sql = Session()
    sql.query('CREATE EXTENSION IF NOT EXISTS cudnn_ops SCHEMA public')
    with open(f'{HERE}/bench.sql') as file:
        sql.query(file.read())
    about = [sql.query('SELECT version()')[0][0].split(' on ')[0]]
    about += [' '.join(r) for r in sql.query("SELECT name, version, coalesce(device, '-') FROM cudnn_ops_providers() WHERE available")]
    sql.close()
    torch = optional('torch', make_torch)
    report = Report(f'{OUT}/{sys.argv[1]}.csv', min if os.environ.get('BENCH_BEST') else statistics.median)
    for row in ROWS:
        if row not in ('h' if GPU else 'ci'):
            optional(f'row {row}', lambda: run_row(row, report, torch))
    optional('cleaning up', lambda: Session().query('DROP SCHEMA cudnn_ops_bench CASCADE'))
    report.lines.sort(key=lambda line: line[0])
    report.show()
    print(f'\n{sys.argv[1]}: {time.monotonic() - begin:.0f} s, {THREADS} threads, {", ".join(about)}')


def run_row(row, report, torch):
    """A row in a session of its own, whatever became of the others."""
    begin = time.monotonic()
    sql = Session()
    globals()[f'row_{row}'](report, sql, torch)
    sql.close()
    print(f'row {row} took {time.monotonic() - begin:.0f} s', flush=True)


if __name__ == '__main__':
    main()
