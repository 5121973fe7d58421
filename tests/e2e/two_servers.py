"""Two servers, and two runs of each command, on one PostgreSQL and one MariaDB."""
import collections
import json
import subprocess
import threading
import time

from databases import MariaDb, Postgres, disagreements
from harness import APELORA, Server, Work, apelora, clean_environment, equal, eventually, report
from load import OwnNode, Worker

PARALLEL, ROUNDS = 64, 5


def both(database, work, play):
    """Plays with two servers on a fresh schema, then looks into the tables."""
    apelora('db', 'upgrade', '--database-url', database.url)
    quiet = {'APELORA_HISTORY_MAX_ENTRIES': '0', 'APELORA_LOG': 'warn'}
    with Server(work, database.url, name='one', **quiet) as one, Server(work, database.url, name='two', **quiet) as two:
        play(one, two)
        equal(disagreements(database), [])
        equal((one.stop(), two.stop()), (0, 0), 'exit codes after SIGTERM')


def identical_adds(database, work):
    def play(one, two):
        for round_ in range(ROUNDS):
            one.api().must(201, 'POST', '/v1/nodes', {'driver': 'fake-hardware', 'name': f'n{round_}'})
            answers, together = [], threading.Barrier(PARALLEL)

            def add(server, path=f'/v1/nodes/n{round_}/maintenance', answers=answers, together=together):
                api = server.api()
                api.must(200, 'GET', path)  # the connection is there before the others are ready
                together.wait()
                answers.append(api('POST', path, {'type': 'operator_hold', 'reason': 'the same'}))

            threads = [threading.Thread(target=add, args=((one, two)[i % 2],)) for i in range(PARALLEL)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            equal(collections.Counter(a.status for a in answers), {201: 1, 409: PARALLEL - 1}, f'round {round_}')
            [winner] = [a.json['uuid'] for a in answers if a.status == 201]
            for answer in answers:
                if answer.status == 409 and not ('already exists' in answer.fault and winner in answer.fault):
                    raise AssertionError(f'409 that does not name {winner}: {answer}')
    both(database, work, play)


def one_node_by_all(database, work):
    """Everybody changes one node through both servers: only 2xx, 404 and 409 are right answers, and all agrees."""
    def play(one, two):
        one.api().must(201, 'POST', '/v1/nodes', {'driver': 'fake-hardware', 'name': 'n'})
        path, seen = '/v1/nodes/n/maintenance', collections.Counter()

        def change(number):
            apis = (one.api(), two.api())
            for turn in range(40):
                api = apis[(number + turn) % 2]
                match (number + turn) % 4:
                    case 0: answer = api('PUT', path, {'reason': f'{number} {turn}'})
                    case 1: answer = api('POST', path, {'type': 'operator_hold', 'reason': f'{number} {turn}'})
                    case 2:
                        held = api.must(200, 'GET', path).json['maintenance']
                        answer = api('DELETE', f'{path}/{held[0]["uuid"]}') if held else api('GET', path)
                    case 3: answer = api('DELETE', path)
                seen[answer.status] += 1
                assert answer.status in (200, 201, 202, 204, 404, 409), repr(answer)

        failures = run_all([lambda n=n: change(n) for n in range(8)])
        equal(failures, [])
        equal(sum(seen.values()), 320)
        print(f'# answers {dict(seen)}')
    both(database, work, play)


def run_all(jobs):
    failures = []

    def guarded(job):
        try:
            job()
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(repr(failure))
    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def twice(*arguments):
    """Two runs of one command at once; both must succeed. What they printed."""
    runs = [subprocess.Popen([APELORA, *arguments], env=clean_environment(), text=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    outputs = [run.communicate(timeout=120) for run in runs]
    equal([run.returncode for run in runs], [0, 0], str(outputs))
    return [out for out, _ in outputs]


def two_upgrades(database, _work):
    twice('db', 'upgrade', '--database-url', database.url)
    status = apelora('db', 'status', '--database-url', database.url)
    equal('up to date' in status, True, status)
    twice('db', 'upgrade', '--database-url', database.url)


def two_backfills(database, work):
    """Older services raised 500 flags; two runs at once make one entry for each."""
    def play(one, _two):
        api = one.api()
        for n in range(500):
            api.must(201, 'POST', '/v1/nodes', {'driver': 'fake-hardware', 'name': f'n{n}'})
    both(database, work, play)
    flag = 'TRUE' if database.name == 'PostgreSQL' else '1'
    database.write(f"UPDATE nodes SET maintenance = {flag}, maintenance_reason = 'by an older service'")
    reports = [json.loads(r) for r in twice('db', 'backfill', '--format', 'json', '--database-url', database.url)]
    equal((sum(r['legacy_made'] for r in reports), sum(r['reconciled'] for r in reports)), (500, 500), str(reports))
    equal(database.rows("SELECT type, reason, asserted_by, count(*) FROM node_maintenance GROUP BY type, reason, "
                        "asserted_by"), [('legacy', 'by an older service', 'migration', 500)])
    equal(database.rows("SELECT count(*) FROM apelora_audit WHERE action = 'maintenance.reconciled'"), [(500,)])


def database_restart(database, work):
    """The database goes away under load and comes back: 503 and recovery, and no report that is wrong."""
    def play(one, two):
        nodes = [[OwnNode(f'w{w}n{n}') for n in range(3)] for w in range(4)]
        workers = [Worker(w, [one.port, two.port], nodes[w], 'restart', rides_out_503=True) for w in range(4)]
        for worker in workers:
            worker.start()
        for _ in range(2):
            time.sleep(0.5)
            refused = sum(w.refused for w in workers)
            database.lab('stop')
            try:
                eventually(lambda r=refused: sum(w.refused for w in workers) > r, 60, '503 while the database is away')
                equal(one.api()('GET', '/readyz').status, 503)
                equal(one.api()('GET', '/healthz').status, 200)
            finally:
                database.lab('start')
            eventually(lambda: one.api()('GET', '/readyz').status == two.api()('GET', '/readyz').status == 200, 60,
                       'both servers ready again')
            done = sum(w.acknowledged for w in workers)
            eventually(lambda d=done: sum(w.acknowledged for w in workers) > d + 20 or
                       next((w.failure for w in workers if w.failure), None), 60, 'changes after the return')
        for worker in workers:
            worker.end()
        for node in (node for own in nodes for node in own):
            node.verify(one.api())
        print(f'# {sum(w.acknowledged for w in workers)} acknowledged, {sum(w.refused for w in workers)} refused')
    both(database, work, play)


def cases():
    for engine in (Postgres, MariaDb):
        for title, play in (('64 identical adds over two servers', identical_adds),
                            ('everybody changes one node over two servers', one_node_by_all),
                            ('two upgrades at once', two_upgrades),
                            ('two backfills at once', two_backfills),
                            ('the database goes away under load and returns', database_restart)):
            def case(engine=engine, play=play):
                with Work() as work:
                    database = engine(work)
                    play(database, work)
                    database.drop()
            yield f'{engine.name}: {title}', case


if __name__ == '__main__':
    report(list(cases()))
