"""Sessions of PostgreSQL by libpq itself, which is all that a client of a few dozen lines needs, and the fastest there is."""

import ctypes
import ctypes.util

COMMAND_OK, TUPLES_OK, COPY_OUT, COPY_IN = 1, 2, 3, 4
BINARY_HEAD = b'PGCOPY\n\xff\r\n\0' + bytes(8)
BINARY_END = b'\xff\xff'


def load():
    lib = ctypes.CDLL(ctypes.util.find_library('pq') or 'libpq.so.5')
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, args in [
            ('PQconnectdb', pointer, [text]), ('PQfinish', None, [pointer]), ('PQstatus', ctypes.c_int, [pointer]),
            ('PQerrorMessage', text, [pointer]), ('PQexec', pointer, [pointer, text]), ('PQclear', None, [pointer]),
            ('PQresultStatus', ctypes.c_int, [pointer]), ('PQntuples', ctypes.c_int, [pointer]), ('PQnfields', ctypes.c_int, [pointer]),
            ('PQgetvalue', text, [pointer, ctypes.c_int, ctypes.c_int]), ('PQgetResult', pointer, [pointer]),
            ('PQgetCopyData', ctypes.c_int, [pointer, ctypes.POINTER(pointer), ctypes.c_int]),
            ('PQputCopyData', ctypes.c_int, [pointer, pointer, ctypes.c_int]), ('PQputCopyEnd', ctypes.c_int, [pointer, text]),
            ('PQfreemem', None, [pointer])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, args
    return lib


class Error(Exception):
    pass


class Session:
    """A connection to where PGHOST and its like point, with settings of its own."""

    lib = None

    def __init__(self, **settings):
        Session.lib = Session.lib or load()
        self.connection = self.lib.PQconnectdb(b'')
        if self.lib.PQstatus(self.connection) != 0:
            raise self.error()
        for name, value in settings.items():
            self.query(f"SELECT set_config('{name.replace('__', '.')}', '{value}', false)")

    def error(self):
        return Error(self.lib.PQerrorMessage(self.connection).decode().strip())

    def run(self, sql, wanted):
        """Executes; gives the result, which the caller clears."""
        result = self.lib.PQexec(self.connection, sql.encode())
        if self.lib.PQresultStatus(result) not in wanted:
            self.lib.PQclear(result)
            raise self.error()
        return result

    def query(self, sql):
        """Rows of texts; those of the last statement."""
        result = self.run(sql, (COMMAND_OK, TUPLES_OK))
        try:
            return [[self.lib.PQgetvalue(result, i, j).decode() for j in range(self.lib.PQnfields(result))]
                    for i in range(self.lib.PQntuples(result))]
        finally:
            self.lib.PQclear(result)

    def number(self, sql):
        return float(self.query(sql)[0][0])

    def fetch_binary(self, sql, use):
        """Calls use(address, size) with the one value that COPY BINARY of a query brings, while it is in memory."""
        self.lib.PQclear(self.run(f'COPY ({sql}) TO STDOUT (FORMAT binary)', (COPY_OUT,)))
        result, message = None, ctypes.c_void_p()
        while (size := self.lib.PQgetCopyData(self.connection, ctypes.byref(message), 0)) > 0:
            head = ctypes.string_at(message, min(size, 19)) == BINARY_HEAD and 19
            if size > head + 6:
                result = use(message.value + head + 6, size - head - 6)
            self.lib.PQfreemem(message)
        self.finish_copy()
        return result

    def store_binary(self, table, pieces):
        """Writes a row of one value, whose pieces are (address, size), by COPY BINARY."""
        self.lib.PQclear(self.run(f'COPY {table} FROM STDIN (FORMAT binary)', (COPY_IN,)))
        size = sum(size for _, size in pieces)
        self.put(BINARY_HEAD + (1).to_bytes(2, 'big') + size.to_bytes(4, 'big'))
        for address, size in pieces:
            self.put(address, size)
        self.put(BINARY_END)
        self.lib.PQputCopyEnd(self.connection, None)
        self.finish_copy()

    def put(self, data, size=None):
        if self.lib.PQputCopyData(self.connection, data, len(data) if size is None else size) != 1:
            raise self.error()

    def finish_copy(self):
        while result := self.lib.PQgetResult(self.connection):
            failed = self.lib.PQresultStatus(result) not in (COMMAND_OK, TUPLES_OK)
            self.lib.PQclear(result)
            if failed:
                raise self.error()

    def close(self):
        self.lib.PQfinish(self.connection)
