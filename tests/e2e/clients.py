"""The clients that operators have, unchanged, against `apelora server`: both commands and the SDK, with and without
passwords; and the usage scenarios of typed maintenance, where those clients read what others asserted."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import openstack
from openstack import exceptions as sdk_errors

import scenarios
from harness import APELORA, ROOT, Server, Work, clean_environment, equal, report

HOME = ROOT / '.work' / 'clients-home'
BIN = pathlib.Path(sys.executable).parent
USER, PASSWORD = 'admin', 'secret'
USER_FILE = 'admin:$2b$05$s2cUKv74ee1mKpoU3kRiqOKUQScwfzR13pSOplP0F3119A0G..Pbq\n'

# Texts that must come back exactly as they were given.
REASONS = [
    'HW_ERR: Disk 3 has bad sectors, see CIDTEAM-3743', 'x', ' leading and trailing blanks ', 'two\nlines\tand a tab',
    '"double" \'single\' \\backslash\\ %s {0} $HOME', 'grün 機械 ελλ \N{HAMMER AND WRENCH}\N{SNOWMAN}', "'; DROP TABLE nodes; --",
    'legacy: looks like ours; so does this', '4,096 characters: ' + 'é' * (4096 - 18),
]


class Client:
    """One of the two commands, talking to one server with one way of logging in."""

    def __init__(self, command, server, auth):
        self.command = [BIN / command]
        if auth == 'noauth':
            self.command += ['--os-auth-type', 'none', '--os-endpoint', server.url]
        else:
            self.command += ['--os-auth-type', 'http_basic', '--os-endpoint', server.url,
                             '--os-username', USER, '--os-password', PASSWORD]
        if command == 'openstack':
            self.command += ['baremetal']
        # Under its home the client keeps its plugins and the negotiated versions.
        self.environment = clean_environment(HOME=str(HOME), XDG_CACHE_HOME=str(HOME), PYTHONUTF8='1', LC_ALL='C.UTF-8')

    def run(self, *arguments):
        return subprocess.run([*self.command, *arguments], env=self.environment, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def __call__(self, *arguments):
        done = self.run(*arguments)
        if done.returncode != 0:
            raise AssertionError(f'{" ".join(map(str, self.command[1:] + list(arguments)))}: exit {done.returncode}\n'
                                 f'{done.stdout}{done.stderr}')
        return done.stdout

    def data(self, *arguments):
        end = arguments.index('--') if '--' in arguments else len(arguments)
        return json.loads(self(*arguments[:end], '-f', 'json', *arguments[end:]))

    def refused(self, text, *arguments):
        done = self.run(*arguments)
        if done.returncode == 0 or text not in done.stderr:
            raise AssertionError(f'{arguments}: exit {done.returncode}, wanted a refusal with {text!r}\n{done.stderr}')


def start(work, auth):
    if auth == 'noauth':
        return Server(work, f'sqlite://{work}/apelora.db')
    users = work / 'htpasswd'
    users.write_text(USER_FILE)
    return Server(work, f'sqlite://{work}/apelora.db', '--auth-strategy', 'http_basic', '--http-basic-user-file', users)


def command_case(command, auth):
    def case():
        with Work() as work, start(work, auth) as server:
            # All texts go through the SDK; each start of a command takes its second.
            reasons = REASONS[:1] + REASONS[3:4] + REASONS[5:6] + REASONS[-1:]
            node_life(Client(command, server, auth), auth, reasons)
    return f'{command} command, {auth}: a node from create to delete', case


def node_life(client, auth, reasons):
    uuid = '11111111-2222-4333-8444-555555555555'
    made = client.data('node', 'create', '--driver', 'fake-hardware', '--name', 'myNode', '--uuid', uuid)
    equal((made['uuid'], made['name'], made['driver']), (uuid, 'myNode', 'fake-hardware'))
    client.data('node', 'create', '--driver', 'fake-hardware', '--name', 'other')
    client.refused('already exists', 'node', 'create', '--driver', 'fake-hardware', '--name', 'third', '--uuid', uuid)

    client('node', 'set', 'myNode', '--extra', 'a=b', '--owner', 'projA', '--description', 'hello')
    shown = client.data('node', 'show', 'myNode')
    equal((shown['extra'], shown['owner'], shown['description']), ({'a': 'b'}, 'projA', 'hello'))
    client('node', 'unset', 'myNode', '--extra', 'a', '--owner')
    shown = client.data('node', 'show', uuid)
    equal((shown['extra'], shown['owner'], shown['description']), ({}, None, 'hello'))

    for reason in reasons:
        client('node', 'maintenance', 'set', 'myNode', '--reason', reason)
        shown = client.data('node', 'show', '--fields', 'maintenance', 'maintenance_reason', '--', 'myNode')
        equal(shown, {'maintenance': True, 'maintenance_reason': reason})
    listed = client.data('node', 'list', '--maintenance', '--fields', 'uuid', 'name', 'maintenance_reason')
    equal([(n['uuid'], n['name'], n['maintenance_reason']) for n in listed], [(uuid, 'myNode', reasons[-1])])
    equal({n['name']: n['maintenance'] for n in client.data('node', 'list')}, {'myNode': True, 'other': False})
    equal(len(client.data('node', 'list', '--long')), 2)

    history = client.data('node', 'history', 'list', 'myNode', '--long')
    equal(len(history), len(reasons))
    equal({(h['event_type'], h['severity'], h['user']) for h in history},
          {('maintenance', 'INFO', USER if auth == 'http_basic' else 'noauth')})
    one = client.data('node', 'history', 'get', 'myNode', history[0]['uuid'])
    equal((one['uuid'], one['event'], one['user']), (history[0]['uuid'], history[0]['event'], history[0]['user']))
    equal(len(client.data('node', 'history', 'list', 'myNode')), len(reasons))

    client('node', 'maintenance', 'unset', 'myNode')
    shown = client.data('node', 'show', '--fields', 'maintenance', 'maintenance_reason', 'fault', '--', 'myNode')
    equal(shown, {'maintenance': False, 'maintenance_reason': None, 'fault': None})
    client('node', 'maintenance', 'set', 'myNode')
    equal(client.data('node', 'show', '--fields', 'maintenance', 'maintenance_reason', '--', 'myNode'),
          {'maintenance': True, 'maintenance_reason': None})

    client.refused('Node nosuch could not be found. (HTTP 404)', 'node', 'show', 'nosuch')
    client('node', 'delete', 'myNode', 'other')
    equal(client.data('node', 'list'), [])


def sdk_case(auth):
    def case():
        with Work() as work, start(work, auth) as server:
            login = {'auth_type': 'none', 'auth': {'endpoint': server.url}} if auth == 'noauth' else {
                'auth_type': 'http_basic', 'auth': {'endpoint': server.url, 'username': USER, 'password': PASSWORD}}
            sdk_life(openstack.connect(load_yaml_config=False, load_envvars=False, **login).baremetal)
    return f'openstacksdk, {auth}: a node from create to delete', case


def sdk_life(sdk):
    node = sdk.create_node(driver='fake-hardware', name='myNode', extra={'a': 1}, description='hello')
    other = sdk.create_node(driver='fake-hardware', name='other')
    found = sdk.get_node('myNode')
    equal((found.id, found.extra, found.description, found.is_maintenance), (node.id, {'a': 1}, 'hello', False))
    for reason in REASONS:
        sdk.set_node_maintenance(node, reason)
        found = sdk.get_node(node.id)
        equal((found.is_maintenance, found.maintenance_reason), (True, reason))
    equal([n.id for n in sdk.nodes(is_maintenance=True)], [node.id])
    equal(sorted(n.name for n in sdk.nodes(details=True)), ['myNode', 'other'])
    equal(sorted(n.name for n in sdk.nodes(limit=1)), ['myNode', 'other'], 'pages of one')
    equal({n.name: n.maintenance_reason for n in sdk.nodes(fields=['name', 'maintenance_reason'])},
          {'myNode': REASONS[-1], 'other': None})
    sdk.unset_node_maintenance(node)
    found = sdk.get_node(node.id)
    equal((found.is_maintenance, found.maintenance_reason), (False, None))
    sdk.update_node(node, is_maintenance=True, maintenance_reason='by update')
    equal(sdk.get_node(node.id).maintenance_reason, 'by update')
    sdk.update_node(node.id, extra={'b': [1, {'c': None}]})
    equal(sdk.get_node(node.id).extra, {'b': [1, {'c': None}]})
    sdk.update_node(sdk.get_node(node.id), is_maintenance=False)
    equal(sdk.get_node(node.id).is_maintenance, False)
    sdk.delete_node(node)
    sdk.delete_node(other)
    equal(list(sdk.nodes()), [])
    try:
        sdk.get_node('myNode')
    except sdk_errors.NotFoundException as error:
        equal('Node myNode could not be found.' in str(error), True, str(error))
    else:
        raise AssertionError('a deleted node was found')


def wrong_password():
    with Work() as work, start(work, 'http_basic') as server:
        client = Client('baremetal', server, 'http_basic')
        client.command[client.command.index(PASSWORD)] = 'wrong'
        client.refused('HTTP 401', 'node', 'list')
        client = Client('baremetal', server, 'noauth')
        client.refused('HTTP 401', 'node', 'list')


def demo():
    """What the demo prints works as printed."""
    with Work() as work:
        home = clean_environment(HOME=str(HOME), XDG_CACHE_HOME=str(HOME), TMPDIR=str(work), NO_PROXY='127.0.0.1',
                                 PATH=f'{BIN}:{os.environ["PATH"]}')
        process = subprocess.Popen([APELORA, 'demo', '--listen', '127.0.0.1:0'], env=home, text=True, cwd=work,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            lines = []
            while 'Ctrl-C' not in (lines or [''])[-1]:
                lines.append(next(process.stdout))
            commands = [line for line in lines if line.startswith(('baremetal ', 'curl '))]
            equal(len(commands), 3, 'commands to try')
            outputs = [subprocess.run(['bash', '-c', command], env=home, check=True, text=True, timeout=120,
                                      capture_output=True).stdout for command in commands]
            for wanted in ('rack1-n1', 'rebalancing rack', 'hardware_failure: Disk 3 has bad sectors'):
                equal(wanted in outputs[0], True, f'{wanted} in {outputs[0]}')
            equal([(e['type'], e['scope']) for e in json.loads(outputs[1])['maintenance']],
                  [('operator_hold', 'lessee'), ('operator_hold', 'owner'), ('hardware_failure', 'system')])
            equal(json.loads(outputs[2])['type'], 'hardware_failure')
            process.send_signal(signal.SIGINT)
            equal(process.wait(60), 0, 'exit code after Ctrl-C')
        finally:
            process.kill()
            process.wait()
        equal([path.name for path in work.glob('apelora-demo-*')], [], 'left behind')


def scenario_case(number, title, play):
    def case():
        with Work() as work, start(work, 'noauth') as server:
            play(server.api(), Client('baremetal', server, 'noauth'))
    return f'scenario {number}: {title}', case


if __name__ == '__main__':
    os.environ.pop('OS_CLOUD', None)
    report([command_case(command, auth) for auth in ('noauth', 'http_basic') for command in ('baremetal', 'openstack')]
           + [sdk_case('noauth'), sdk_case('http_basic'), ('a wrong or missing password is refused', wrong_password)]
           + [scenario_case(*scenario) for scenario in scenarios.SCENARIOS]
           + [('what the demo prints works as printed', demo)], at_once=2)
