"""kill -9 of the server in the middle of load: after the restart every acknowledged change is there, and no half one.

  crash.py SEED [ENGINE=CYCLES ...]     ENGINE: sqlite, postgres, mariadb
"""
import contextlib
import random
import sqlite3
import sys
import time

from databases import MariaDb, Postgres, Sqlite, disagreements
from harness import Server, Work, apelora, report
from load import OwnNode, Worker

WORKERS, NODES_EACH = 4, 3


def case(engine, cycles, seed):
    def run():
        with Work() as work:
            database = engine(work)
            apelora('db', 'upgrade', '--database-url', database.url)
            server = Server(work, database.url, APELORA_HISTORY_MAX_ENTRIES='0', APELORA_LOG='warn')
            try:
                crash(server, database, cycles, random.Random(seed))
            finally:
                if server.process and server.process.poll() is None:
                    server.kill()
            database.drop()
    return f'{engine.name}: {cycles} times kill -9 under load', run


def crash(server, database, cycles, pick):
    nodes = [[OwnNode(f'w{w}n{n}') for n in range(NODES_EACH)] for w in range(WORKERS)]
    acknowledged = open_ends = 0
    for cycle in range(cycles):
        server.start(server.port)
        api = server.api()
        for node in (node for own in nodes for node in own):
            open_ends += len(node.possible) - 1
            node.verify(api)
        api.close()
        problems = disagreements(database)
        assert not problems, f'after kill {cycle}: ' + '; '.join(problems)
        workers = [Worker(w, [server.port], nodes[w], pick.random()) for w in range(WORKERS)]
        for worker in workers:
            worker.start()
        time.sleep(pick.uniform(0.1, 0.5))
        early = [w for w in workers if not w.is_alive()]
        server.kill()
        for worker in workers:
            worker.end()
            acknowledged += worker.acknowledged
        assert not early, f'{len(early)} workers lost the server before it was killed, in cycle {cycle}'
        database.wait_until_idle()
    server.start(server.port)
    for node in (node for own in nodes for node in own):
        node.verify(server.api())
    problems = disagreements(database)
    assert not problems, 'at the end: ' + '; '.join(problems)
    assert acknowledged > cycles, f'{acknowledged} changes in {cycles} cycles: that is no load'
    print(f'# {acknowledged} acknowledged changes, {open_ends} in the air when the server was killed')


def checked():
    """The look into the tables sees a change of each kind that is only half there."""
    half = {
        'entry without its flag': 'UPDATE nodes SET maintenance = 0',
        'another reason': "UPDATE nodes SET maintenance_reason = 'x'",
        'flag without its entries': 'DELETE FROM node_maintenance',
        'one entry less': "DELETE FROM node_maintenance WHERE type = 'operator_hold'",
        'another reason of an entry': "UPDATE node_maintenance SET reason = 'x' WHERE type = 'operator_hold'",
        'one history record less': 'DELETE FROM node_history WHERE id = (SELECT max(id) FROM node_history)',
        'one audit row less': 'DELETE FROM apelora_audit WHERE seq = (SELECT max(seq) FROM apelora_audit)',
        'a change told in another order': 'UPDATE apelora_audit SET seq = seq + 100 WHERE seq = 1',
    }
    with Work() as work:
        database = Sqlite(work)
        with Server(work, database.url) as server:
            api = server.api()
            api.must(201, 'POST', '/v1/nodes', {'driver': 'fake-hardware', 'name': 'n'})
            for reason in ('one', 'two'):
                api.must(202, 'PUT', '/v1/nodes/n/maintenance', {'reason': reason})
            api.must(201, 'POST', '/v1/nodes/n/maintenance', {'type': 'operator_hold', 'reason': 'three'})
            server.stop()
        assert disagreements(database) == [], disagreements(database)
        for what, statement in half.items():
            with contextlib.closing(sqlite3.connect(':memory:')) as copy:
                with contextlib.closing(sqlite3.connect(database.path)) as original:
                    original.backup(copy)
                copy.execute(statement)
                assert disagreements(Opened(copy)), f'not seen: {what}'


class Opened:
    """A database that is already open."""

    def __init__(self, connection):
        self.connection = connection

    def rows(self, statement):
        return self.connection.execute(statement).fetchall()


if __name__ == '__main__':
    seed_, *wanted = sys.argv[1:]
    engines = {'sqlite': Sqlite, 'postgres': Postgres, 'mariadb': MariaDb}
    print(f'# seed {seed_}')
    report([('half changes are seen', checked)] + [case(engines[name], int(cycles), f'{seed_}-{name}')
            for name, _, cycles in (argument.partition('=') for argument in wanted)])
