"""The three engines, seen from outside: fresh databases for servers under test, and the look into the tables that tells
whether flag, reason, entries, history and audit agree."""
import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import urllib.parse

from harness import ROOT, eventually


class Sqlite:
    name = 'SQLite'

    def __init__(self, work):
        self.path = work / 'apelora.db'
        self.url = f'sqlite://{self.path}'

    def rows(self, statement):
        with contextlib.closing(sqlite3.connect(f'file:{self.path}?mode=ro', uri=True, timeout=30)) as db:
            return db.execute(statement).fetchall()

    def write(self, *statements):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as db, db:
            for statement in statements:
                db.execute(statement)

    def wait_until_idle(self):
        """A killed process holds nothing in an embedded database."""

    def drop(self):
        """Its folder goes with the case."""


class Networked:
    """A fresh database on a server whose URL is in the environment."""
    counter = 0

    def __init__(self, _work):
        self.admin = urllib.parse.urlsplit(os.environ[self.variable])
        Networked.counter += 1
        self.database = f'e2e_{os.getpid()}_{Networked.counter}'
        self.administer(f'CREATE DATABASE {self.database}{self.options}')
        self.url = urllib.parse.urlunsplit(self.admin._replace(path='/' + self.database))

    def run(self, database, statements):
        with contextlib.closing(self.connect(database)) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def rows(self, statement):
        return self.run(self.database, [statement])

    def write(self, *statements):
        self.run(self.database, statements)

    def administer(self, statement):
        self.run(self.admin.path.strip('/'), [statement])

    def wait_until_idle(self):
        """Until no session of a killed server is left: its last commit may still be on its way."""
        eventually(lambda: self.rows(self.sessions) == [(0,)], 30, 'sessions of the killed server to end')

    def lab(self, verb):
        """Stops or starts the database server itself; its data stays."""
        # The server outlives the script: it must not keep our own output open.
        log = pathlib.Path(os.environ[self.folder]) / 'lab.log'
        with open(log, 'ab') as out:
            subprocess.run([ROOT / self.script, verb, os.environ[self.folder]], check=True, timeout=120,
                           stdin=subprocess.DEVNULL, stdout=out, stderr=out)


class Postgres(Networked):
    name = 'PostgreSQL'
    variable, folder, script = 'APELORA_TEST_POSTGRES_URL', 'APELORA_TEST_POSTGRES_WORK', 'tests/labs/postgres.sh'
    options = ''
    sessions = 'SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'

    def connect(self, database):
        import psycopg  # pylint: disable=import-outside-toplevel
        return psycopg.connect(urllib.parse.urlunsplit(self.admin._replace(path='/' + database)), autocommit=True)

    def drop(self):
        self.administer(f'DROP DATABASE {self.database} WITH (FORCE)')


class MariaDb(Networked):
    name = 'MariaDB'
    variable, folder, script = 'APELORA_TEST_MARIADB_URL', 'APELORA_TEST_MARIADB_WORK', 'tests/labs/mariadb.sh'
    options = ' CHARACTER SET utf8mb4'
    sessions = ('SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id <> connection_id() '
                'AND command <> \'Daemon\'')

    def connect(self, database):
        import pymysql  # pylint: disable=import-outside-toplevel
        return pymysql.connect(user=self.admin.username, password=self.admin.password or '', database=database or None,
                               host=self.admin.hostname, port=self.admin.port or 3306, charset='utf8mb4',
                               autocommit=True)

    def drop(self):
        self.administer(f'DROP DATABASE {self.database}')


# What the boolean API's readers see, out of the entries.
def synthesised(entries):
    if len(entries) == 1 and entries[0]['type'] == 'legacy':
        return entries[0]['reason']
    return '; '.join(e['type'] if e['reason'] is None else f'{e["type"]}: {e["reason"]}' for e in entries) or None


EVENT = re.compile(r'Maintenance (asserted|released|reason changed): (\S+) \(scope (\S+), entry (\S+)\)(?:: (.*))?', re.S)
WORDS = {'maintenance.asserted': 'asserted', 'maintenance.released': 'released', 'maintenance.amended': 'reason changed'}


def disagreements(database):
    """Every place where flag, reason, entries, history and audit tell different stories, each as a sentence.

    The audit trail is played back from an empty start: what it leaves must be the entries of today, and every step of it
    must be in the node's history, in the same order. Only for databases without older services and without history
    clean-up.
    """
    found = []
    keys = ('id', 'uuid', 'node_id', 'type', 'reason', 'scope', 'version')
    entries = [dict(zip(keys, row)) for row in database.rows(
        f'SELECT {", ".join(keys)} FROM node_maintenance ORDER BY asserted_at, id')]
    nodes = database.rows('SELECT id, uuid, maintenance, maintenance_reason FROM nodes')
    history = database.rows("SELECT node_id, event FROM node_history WHERE event_type = 'maintenance' ORDER BY id")
    trail = database.rows('SELECT node_uuid, action, evidence FROM apelora_audit ORDER BY seq')
    known = {row[0] for row in nodes}
    found += [f'entry {e["uuid"]} of no node' for e in entries if e['node_id'] not in known]
    found += [f'entry {e["uuid"]} without a version' for e in entries if not e['version']]
    found += [f'history record of no node: {event}' for node_id, event in history if node_id not in known]
    for node_id, uuid, flag, reason in nodes:
        ours = [e for e in entries if e['node_id'] == node_id]
        if bool(flag) != bool(ours):
            found.append(f'node {uuid}: flag {flag} with {len(ours)} entries')
        if reason != synthesised(ours):
            found.append(f'node {uuid}: reason {reason!r}, entries say {synthesised(ours)!r}')
        played, steps = play([(a, json.loads(e)) for u, a, e in trail if u == uuid])
        if played != {e['uuid']: (e['type'], e['reason'], e['scope']) for e in ours}:
            found.append(f'node {uuid}: audit leaves {played}, entries are {ours}')
        told = [EVENT.fullmatch(event) and EVENT.fullmatch(event).groups() for i, event in history if i == node_id]
        if told != steps:
            found.append(f'node {uuid}: history {told}, audit {steps}')
    return found


def play(trail):
    """The entries that a node's audit rows leave, and the history that belongs to them."""
    live, steps = {}, []
    for action, evidence in trail:
        entry = evidence.get('entry')
        if action not in WORDS:
            continue
        if (action == 'maintenance.asserted') == (entry['uuid'] in live):
            steps.append(('impossible', action, entry['uuid']))
        if action == 'maintenance.released':
            live.pop(entry['uuid'], None)
        else:
            live[entry['uuid']] = (entry['type'], entry['reason'], entry['scope'])
        steps.append((WORDS[action], entry['type'], entry['scope'], entry['uuid'], entry['reason']))
    return live, steps
