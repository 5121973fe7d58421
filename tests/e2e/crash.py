"""kill -9 of the server in the middle of load: after the restart every acknowledged change is there, and no half one.

  crash.py SEED [ENGINE=CYCLES ...]     ENGINE: sqlite, postgres, mariadb
"""
import random
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


if __name__ == '__main__':
    seed_, *wanted = sys.argv[1:]
    engines = {'sqlite': Sqlite, 'postgres': Postgres, 'mariadb': MariaDb}
    print(f'# seed {seed_}')
    report([case(engines[name], int(cycles), f'{seed_}-{name}')
            for name, _, cycles in (argument.partition('=') for argument in wanted)])
