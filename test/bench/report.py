"""Interleaved measurements, their table of ratios and their raw numbers."""

import csv
import math
import os


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def human(value, unit='us'):
    """A number of three digits with its unit."""
    if value is None:
        return '-'
    if unit == 'us' and value >= 9999:
        value, unit = value / 1000, 'ms'
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f'{value:.{digits}f} {unit}'


def rivals_name(sides):
    """"torch strict contiguous" and "torch strict channels_last" are "torch strict contiguous or channels_last"."""
    first, *others = sides
    common = os.path.commonprefix([side.split() for side in sides])
    return ' or '.join([first] + [' '.join(side.split()[len(common):]) for side in others])


class Report:
    """Numbers go to a CSV file as they come, what `middle` makes of the rounds of a side into the table, which is printed last."""

    def __init__(self, path, middle):
        self.middle = middle
        self.file = open(path, 'w', newline='')
        self.csv = csv.writer(self.file)
        self.csv.writerow(['row', 'problem', 'side', 'round', 'value', 'unit'])
        self.lines = []

    def put(self, row, problem, side, number, value, unit='us'):
        self.csv.writerow([row, problem, side, number, f'{value:.3f}', unit])
        self.file.flush()

    def interleave(self, row, problem, sides, rounds=5):
        """The middle of each side, {name: function that gives microseconds}; one that fails says why and is left out."""
        values = {side: [] for side in sides}
        for number in range(rounds):
            for side in list(values):
                try:
                    value = sides[side]()
                except Exception as error:
                    print(f'row {row}, {problem}, {side}: {type(error).__name__}: {str(error).splitlines()[:1]}', flush=True)
                    del values[side]
                    continue
                values[side].append(value)
                self.put(row, problem, side, number, value)
        return {side: self.middle(v) for side, v in values.items()}

    def line(self, row, what, ours, rival_name='', rival=None, goal='', unit='us'):
        """A line of the table; `ours` or `rival` may be None where it could not be measured."""
        ratio = f'{ours / rival:.2f}' if ours is not None and rival else '-'
        self.lines.append([row, what, human(ours, unit), rival_name, human(rival, unit) if rival_name else '',
                           ratio if rival_name else '', goal])

    def ratios(self, row, what, medians, ours, rivals, goal=''):
        """A line with the geometric mean of ours / the best of rivals over the problems that have both; medians is a list."""
        pairs = [(m[ours], min(m[r] for r in rivals if r in m)) for m in medians if ours in m and any(r in m for r in rivals)]
        if not pairs:
            self.lines.append([row, what, '-', rivals_name(rivals), '-', '-', goal])
            return
        each = sorted(a / b for a, b in pairs)
        self.lines.append([row, f'{what}, {len(pairs)} problems', human(sum(a for a, _ in pairs)), rivals_name(rivals),
                           human(sum(b for _, b in pairs)), f'{geomean(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})', goal])

    def show(self):
        head = ['row', 'what', 'cudnn_ops', 'rival', 'rival takes', 'ratio', 'goal']
        table = [head] + self.lines
        width = [max(len(line[i]) for line in table) for i in range(len(head))]
        print()
        for line in table:
            print('  '.join(cell.ljust(width[i]) for i, cell in enumerate(line)).rstrip())
