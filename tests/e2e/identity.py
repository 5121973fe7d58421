"""Operators, owners and lessees as a real Keystone knows them: the usage scenarios with the clients that they have, tokens
that do not count, and a Keystone that is stopped, hung and slow.

APELORA_TEST_KEYSTONE is the folder of a running tests/labs/keystone.sh, KEYSTONE_PYTHON its interpreter.
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from harness import APELORA, OLD, ROOT, Server, Work, clean_environment, equal, eventually, report

LAB = pathlib.Path(os.environ['APELORA_TEST_KEYSTONE'])
SCRIPT = ROOT / 'tests/labs/keystone.sh'
BIN = pathlib.Path(sys.executable).parent
HOME = ROOT / '.work' / 'clients-home'
PERSONAS = json.loads((LAB / 'personas.json').read_text())
PROJECTS = PERSONAS['projects']
NODE = 'myNode'
PATH = f'/v1/nodes/{NODE}/maintenance'
# The answer without a decision comes within this time, in seconds: what Apelora promises.
DECISION = 6


def persona(name):
    return next(one for one in PERSONAS['personas'] if one['persona'] == name)


# Keystone ---------------------------------------------------------------------------------------------------------


def keystone(method, path, body=None, token=None):
    request = urllib.request.Request(
        PERSONAS['url'] + path, method=method, data=None if body is None else json.dumps(body).encode(),
        headers={'Content-Type': 'application/json', **(token or {})})
    with urllib.request.urlopen(request, timeout=30) as answer:
        raw = answer.read()
        return answer.headers, json.loads(raw) if raw else {}


def log_in(user, password, scope):
    auth = {'identity': {'methods': ['password'], 'password': {'user': {
        'name': user, 'domain': {'id': 'default'}, 'password': password}}}, **scope}
    return keystone('POST', '/auth/tokens', {'auth': auth})[0]['X-Subject-Token']


def token(name):
    one = persona(name)
    scope = {'system': {'scope': {'system': {'all': True}}}, 'domain': {'scope': {'domain': {'id': 'default'}}},
             'project': {'scope': {'project': {'id': one['project_id']}}}, 'none': {}}[one['scope']]
    return log_in(name, one['password'], scope)


def admin():
    return {'X-Auth-Token': log_in('admin', 'adminpw', {'scope': {'system': {'all': True}}})}


def in_catalogue(url):
    """The address of the Bare Metal API, where the clients find it."""
    mine = admin()
    services = {one['id'] for one in keystone('GET', '/services', token=mine)[1]['services'] if one['type'] == 'baremetal'}
    for endpoint in keystone('GET', '/endpoints', token=mine)[1]['endpoints']:
        if endpoint['service_id'] in services:
            keystone('PATCH', f'/endpoints/{endpoint["id"]}', {'endpoint': {'url': url}}, mine)


def lab(verb, **environment):
    subprocess.run([SCRIPT, verb, LAB], env={**os.environ, **environment}, check=True, timeout=120)


def keystone_pid():
    return int((LAB / 'pid').read_text())


# Apelora ----------------------------------------------------------------------------------------------------------


class Slow(threading.Thread):
    """Stands between Apelora and Keystone and lets each connection wait before it passes anything on."""

    def __init__(self):
        super().__init__(daemon=True)
        self.delay = 0
        self.to = int(PERSONAS['url'].split(':')[2].split('/')[0])
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            near, _ = self.listener.accept()
            threading.Thread(target=self.pass_on, args=(near,), daemon=True).start()

    def pass_on(self, near):
        with near, contextlib.suppress(OSError):
            with socket.create_connection(('127.0.0.1', self.to)) as far:
                threading.Thread(target=self.copy, args=(far, near, False), daemon=True).start()
                self.copy(near, far, True)

    def copy(self, source, sink, wait):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if wait:
                    time.sleep(self.delay)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


def server(work, *arguments, url=None, **environment):
    return Server(work, f'sqlite://{work}/apelora.db', '--auth-strategy', 'keystone', '--keystone-url',
                  url or PERSONAS['url'], '--keystone-username', 'ironic', *arguments,
                  APELORA_KEYSTONE_PASSWORD='ironic-pw', **environment)


class Person:
    """Somebody with a token, the `openstack` command and the `apelora` command."""

    def __init__(self, apelora, name):
        self.name = name
        settings = subprocess.run([SCRIPT, 'env', LAB, name], text=True, capture_output=True, check=True).stdout
        variables = dict(line.removeprefix('export ').split('=', 1) for line in settings.splitlines()
                         if line.startswith('export '))
        self.environment = clean_environment(
            HOME=str(HOME), XDG_CACHE_HOME=str(HOME), PYTHONUTF8='1', LC_ALL='C.UTF-8',
            **{key: value.strip("'") for key, value in variables.items()})
        self.api = apelora.api(headers={'X-Auth-Token': token(name)})

    def run(self, command):
        return subprocess.run(command, env=self.environment, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False)

    def done(self, command):
        done = self.run(command)
        if done.returncode != 0:
            raise AssertionError(f'{self.name}: {" ".join(map(str, command))}: exit {done.returncode}\n'
                                 f'{done.stdout}{done.stderr}')
        return done.stdout

    def openstack(self, *arguments):
        return self.done([BIN / 'openstack', 'baremetal', *arguments])

    def openstack_refused(self, text, *arguments):
        done = self.run([BIN / 'openstack', 'baremetal', *arguments])
        if done.returncode == 0 or text not in done.stderr:
            raise AssertionError(f'{self.name}: {arguments}: exit {done.returncode}, wanted a refusal with {text!r}\n'
                                 f'{done.stderr}')

    def names(self):
        return sorted(node['name'] for node in json.loads(self.openstack('node', 'list', '-f', 'json')))

    def apelora(self, *arguments):
        out = self.done([APELORA, *arguments, '--format', 'json'])
        return json.loads(out) if out.strip() else None

    def apelora_refused(self, text, *arguments):
        done = self.run([APELORA, *arguments])
        if done.returncode != 1 or text not in done.stderr:
            raise AssertionError(f'{self.name}: {arguments}: exit {done.returncode}, wanted a refusal with {text!r}\n'
                                 f'{done.stderr}')

    def add(self, kind, reason='r'):
        return self.apelora('node', 'maintenance', 'add', NODE, '--type', kind, '--reason', reason)

    def entries(self):
        return self.api.must(200, 'GET', PATH).json['maintenance']

    def __getattr__(self, verb):
        return getattr(self.api, verb)


class People:
    """The server with one node, owned by owner-a and leased to lessee-a."""

    def __enter__(self):
        self.work = Work()
        self.server = server(self.work.__enter__())
        self.server.start()
        in_catalogue(self.server.url)
        self.operator = Person(self.server, 'system-admin')
        self.owner = Person(self.server, 'owner-a-member')
        self.lessee_a = Person(self.server, 'lessee-a-admin')
        self.lessee_b = Person(self.server, 'lessee-b-admin')
        self.outsider = Person(self.server, 'outsider-member')
        self.operator.openstack('node', 'create', '--driver', 'fake-hardware', '--name', NODE)
        self.operator.openstack('node', 'set', NODE, '--owner', PROJECTS['owner-a'], '--lessee', PROJECTS['lessee-a'])
        return self

    def __exit__(self, *failure):
        self.server.__exit__(*failure)
        self.work.__exit__(*failure)


def refusal(entry, rest):
    return f'Cannot release maintenance entry {entry["uuid"]} (type {entry["type"]}, scope {entry["scope"]}{rest}'


# Scenarios --------------------------------------------------------------------------------------------------------


def who_sees_what():
    with People() as people:
        for person, sees in ((people.operator, [NODE]), (people.owner, [NODE]), (people.lessee_a, [NODE]),
                             (people.lessee_b, []), (people.outsider, [])):
            equal(person.names(), sees, person.name)
        for person in (people.lessee_b, people.outsider):
            person.openstack_refused(f'Node {NODE} could not be found.', 'node', 'show', NODE)
            person.openstack_refused(f'Node {NODE} could not be found.', 'node', 'maintenance', 'set', NODE)
        shown = json.loads(people.lessee_a.openstack('node', 'show', NODE, '-f', 'json'))
        equal('edacted' in shown['reservation'] and 'edacted' in shown['last_error'], True, str(shown))
        people.lessee_a.openstack_refused('baremetal:node:history:get', 'node', 'history', 'list', NODE)
        member = Person(people.server, 'lessee-a-member')
        member.openstack_refused('baremetal:node:set_maintenance', 'node', 'maintenance', 'set', NODE)
        reader = Person(people.server, 'system-reader')
        equal(reader.names(), [NODE])
        reader.openstack_refused('baremetal:node:clear_maintenance', 'node', 'maintenance', 'unset', NODE)


def scenarios_1_to_4():
    with People() as people:
        disk = people.owner.add('hardware_failure', 'Disk 3 has bad sectors')
        equal((disk['scope'], disk['asserted_by'], disk['asserted_by_project']),
              ('owner', persona('owner-a-member')['user_id'], PROJECTS['owner-a']))
        shown = json.loads(people.lessee_a.openstack(
            'node', 'show', NODE, '--fields', 'maintenance', 'maintenance_reason', '-f', 'json'))
        equal(shown, {'maintenance': True, 'maintenance_reason': 'hardware_failure: Disk 3 has bad sectors'})
        power = people.operator.add('operator_hold', 'Row C power work')
        equal((power['scope'], power['asserted_by_project']), ('system', ''))
        equal([entry['uuid'] for entry in people.owner.entries()], [disk['uuid'], power['uuid']])
        mate = Person(people.server, 'owner-a-member2')
        mate.apelora_refused(disk['uuid'], 'node', 'maintenance', 'add', NODE, '--type', 'hardware_failure')
        people.operator.apelora('node', 'maintenance', 'remove', NODE, power['uuid'])
        equal(people.owner.entries(), [disk])
        released = [one for one in json.loads(people.owner.openstack('node', 'history', 'list', NODE, '--long', '-f', 'json'))
                    if 'released' in one['event']]
        equal([(power['uuid'] in one['event'], one['user']) for one in released], [(True, None)])
        # The old command releases everything, for whoever may; a team mate may.
        mate.openstack('node', 'maintenance', 'unset', NODE)
        equal(people.owner.entries(), [])


def scenario_5():
    with People() as people:
        system = people.operator.add('hardware_failure', 'HW')
        mine = people.lessee_a.add('operator_hold', 'mine')
        words = refusal(system, '): not permitted at lessee scope')
        people.lessee_a.openstack_refused(words, 'node', 'maintenance', 'unset', NODE)
        people.lessee_a.apelora_refused(words, 'node', 'maintenance', 'remove', NODE, '--all')
        equal(people.lessee_a.api.must(403, 'DELETE', PATH, version=OLD).fault, words)
        seen = people.lessee_a.entries()
        equal([(one['asserted_by'], one['asserted_by_project']) for one in seen],
              [(None, None), (mine['asserted_by'], PROJECTS['lessee-a'])])
        people.lessee_a.apelora('node', 'maintenance', 'remove', NODE, mine['uuid'])
        equal([one['uuid'] for one in people.operator.entries()], [system['uuid']])
        shown = json.loads(people.lessee_a.openstack('node', 'show', NODE, '--fields', 'maintenance', '-f', 'json'))
        equal(shown, {'maintenance': True})


def scenario_6():
    with People() as people:
        hold = people.lessee_a.add('operator_hold', 'theirs')
        people.owner.openstack('node', 'set', NODE, '--lessee', PROJECTS['lessee-b'])
        people.lessee_a.apelora_refused('could not be found', 'node', 'maintenance', 'remove', NODE, hold['uuid'])
        words = refusal(hold, f', asserted by project {PROJECTS["lessee-a"]}): not asserted by your project')
        people.lessee_b.openstack_refused(words, 'node', 'maintenance', 'unset', NODE)
        stale = people.owner.apelora('node', 'maintenance', 'list', '--all-nodes', '--stale')
        equal(hold['uuid'] in json.dumps(stale), True, str(stale))
        equal(people.outsider.apelora('node', 'maintenance', 'list', '--all-nodes', '--stale'), [])
        people.owner.apelora('node', 'maintenance', 'remove', NODE, hold['uuid'])
        equal(people.operator.entries(), [])
        # One rank up.
        hold = people.owner.add('operator_hold')
        people.owner.openstack_refused('baremetal:node:update:owner', 'node', 'set', NODE, '--owner', PROJECTS['owner-b'])
        people.operator.openstack('node', 'set', NODE, '--owner', PROJECTS['owner-b'])
        next_owner = Person(people.server, 'owner-b-admin')
        next_owner.openstack_refused('not asserted by your project', 'node', 'maintenance', 'unset', NODE)
        people.operator.openstack('node', 'maintenance', 'unset', NODE)
        equal(people.operator.entries(), [])


# Tokens -----------------------------------------------------------------------------------------------------------


def challenged(apelora, sent):
    answer = apelora.api(headers={'X-Auth-Token': sent} if sent else {})('GET', '/v1/nodes')
    equal((answer.status, answer.headers.get('www-authenticate')), (401, f'Keystone uri="{PERSONAS["url"]}"'), str(answer))


def tokens_that_do_not_count():
    with Work() as work, server(work, '--keystone-cache-secs', '0') as apelora:
        good = token('system-reader')
        apelora.api(headers={'X-Auth-Token': good}).must(200, 'GET', '/v1/nodes')
        for sent in (None, 'garbage', good[:-9] + 'AAAAAAAAA', good[1:], 'a' * 9000):
            challenged(apelora, sent)
        keystone('DELETE', '/auth/tokens', token={'X-Auth-Token': good, 'X-Subject-Token': good})
        challenged(apelora, good)
        # A service token of the system gives an unrelated user nothing.
        headers = {'X-Auth-Token': token('outsider-member'), 'X-Service-Token': token('system-service')}
        equal(apelora.api(headers=headers).must(200, 'GET', '/v1/nodes').json, {'nodes': []})
        log = apelora.log()
        equal([word for word in (good, headers['X-Auth-Token'], 'ironic-pw') if word in log], [], 'in the log')


def expired_tokens():
    lab('stop')
    lab('start', KEYSTONE_EXPIRATION='6')
    try:
        with Work() as work, server(work) as apelora:
            api = apelora.api(headers={'X-Auth-Token': token('system-reader')})
            api.must(200, 'GET', '/v1/nodes')
            # Also what was remembered ends with the token.
            eventually(lambda: api('GET', '/v1/nodes').status == 401, 30, 'the token expires')
            # The service's own token has expired as well, and was renewed.
            apelora.api(headers={'X-Auth-Token': token('system-reader')}).must(200, 'GET', '/v1/nodes')
    finally:
        lab('stop')
        lab('start')


# Trouble ----------------------------------------------------------------------------------------------------------


def undecided(api):
    began = time.monotonic()
    answer = api('GET', '/v1/nodes')
    took = time.monotonic() - began
    equal(answer.status, 503, str(answer))
    equal(int(answer.headers['retry-after']) >= 1, True)
    equal('temporarily unavailable' in answer.json['error']['message'], True)
    if took > DECISION:
        raise AssertionError(f'the answer took {took:.1f} s')
    print(f'# 503 after {took:.2f} s')


def keystone_in_trouble():
    with Work() as work:
        between = Slow()
        url = f'http://127.0.0.1:{between.port}/v3'
        with server(work, '--keystone-cache-secs', '0', url=url) as apelora:
            api = apelora.api(headers={'X-Auth-Token': token('system-reader')})
            decided = lambda: api('GET', '/v1/nodes').status == 200
            equal(decided(), True)

            lab('stop')
            undecided(api)
            equal(apelora.api()('GET', '/v1').status, 200, 'the documents, without Keystone')
            challenged_at = apelora.api()('GET', '/v1/nodes')
            equal(challenged_at.status, 401, 'no token is no token, without Keystone')
            lab('start')
            eventually(decided, 60, 'Keystone is started, and Apelora goes on')

            os.kill(keystone_pid(), signal.SIGSTOP)
            try:
                undecided(api)
            finally:
                os.kill(keystone_pid(), signal.SIGCONT)
            eventually(decided, 60, 'Keystone goes on, and so does Apelora')

            between.delay = 1
            equal(decided(), True, 'slow')
            between.delay = 8
            undecided(api)
            between.delay = 0
            eventually(decided, 60, 'Keystone is fast again')
        log = apelora.log()
        equal('Keystone decides about tokens again' in log and 'Keystone gives no decision' in log, True, log[-2000:])


def remembered_while_stopped():
    """What Keystone said is believed for the cache time, and no longer than that is promised."""
    with Work() as work, server(work) as apelora:
        known, other = token('system-reader'), token('system-admin')
        apelora.api(headers={'X-Auth-Token': known}).must(200, 'GET', '/v1/nodes')
        lab('stop')
        try:
            apelora.api(headers={'X-Auth-Token': known}).must(200, 'GET', '/v1/nodes')
            undecided(apelora.api(headers={'X-Auth-Token': other}))
        finally:
            lab('start')


def a_wrong_password_is_told():
    with Work() as work:
        wrong = Server(work, f'sqlite://{work}/apelora.db', '--auth-strategy', 'keystone', '--keystone-url',
                       PERSONAS['url'], '--keystone-username', 'ironic', APELORA_KEYSTONE_PASSWORD='wr0ng')
        with wrong as apelora:
            eventually(lambda: "own Keystone account does not work" in apelora.log(), 30, 'a line in the log')
            undecided(apelora.api(headers={'X-Auth-Token': token('system-reader')}))
            equal('wr0ng' in apelora.log(), False, 'the password in the log')


if __name__ == '__main__':
    report([
        ('who sees what', who_sees_what),
        ('scenarios 1 to 4 with projects', scenarios_1_to_4),
        ('scenario 5: scoped holds and denials', scenario_5),
        ('scenario 6: holds across a lease change', scenario_6),
        ('garbled, revoked and forged tokens', tokens_that_do_not_count),
        ('expired tokens', expired_tokens),
        ('Keystone stopped, hung and slow', keystone_in_trouble),
        ('a token that was known before Keystone stopped', remembered_while_stopped),
        ('a wrong password of the service', a_wrong_password_is_told),
    ])
