"""The `baremetal` command at the microversions that deployments pin it to, with every option of its lists, and what it
does while another service holds a node.

The command runs inside of this process, from its own entry point: it is the same code, without the second that each
start of an interpreter takes.
"""
import contextlib
import io
import json
import os
import pathlib
import threading
import time

from ironicclient import shell

from databases import Sqlite
from harness import ROOT, Server, Work, equal, report

HOME = ROOT / '.work' / 'clients-home'
# What the command makes of a 406.
NEWER = 'is not supported by the requested version'
VERSIONS = ['1.1', '1.31', '1.61', '1.78', '1.115', 'latest']
NODES = {'n1': '00000001-0000-4000-8000-000000000001', 'n2': '00000002-0000-4000-8000-000000000002',
         'n3': '00000003-0000-4000-8000-000000000003'}


class Refused(Exception):
    """The command failed; its words."""


class Command:
    """`baremetal` at one version against one server."""

    def __init__(self, server, version, retries=1):
        self.words = ['--os-auth-type', 'none', '--os-endpoint', server.url, '--os-baremetal-api-version', version,
                      '--max-retries', str(retries), '--retry-interval', '1' if retries == 1 else '2']
        self.minor = 115 if version == 'latest' else int(version.split('.')[1])

    def __call__(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = shell.main([*self.words, *map(str, arguments)])
        if code:
            raise Refused(f'{arguments}: {err.getvalue()}{out.getvalue()}')
        return out.getvalue()

    def data(self, *arguments):
        return json.loads(self(*arguments, '-f', 'json'))

    def refused(self, text, *arguments):
        try:
            self(*arguments)
        except Refused as words:
            if text not in str(words):
                raise AssertionError(f'wanted {text!r} in {words}') from None
        else:
            raise AssertionError(f'{arguments} was not refused')

    def names(self, *options):
        """Which nodes a list shows."""
        of = {uuid: name for name, uuid in NODES.items()}
        # In detail the columns have the fields' own names.
        return [of[node.get('UUID') or node['uuid']] for node in self.data('node', 'list', *options)]


def life(version):
    def case():
        with Work() as work, Server(work, Sqlite(work).url) as server:
            old = Command(server, version)
            new = Command(server, '1.115')
            nodes(old, new, Sqlite(work))
            lists(old)
            changes(old, new)
    return f'baremetal at {version}: create, list with every option, show, set, unset, maintenance, history, delete', case


def nodes(old, new, database):
    """Three nodes that differ, made with what the version has."""
    more = {'n1': [], 'n2': [], 'n3': []}
    for since, node, option in [(5, 'n1', ['--name', 'n1']), (5, 'n2', ['--name', 'n2']), (5, 'n3', ['--name', 'n3']),
                                (21, 'n2', ['--resource-class', 'big']), (51, 'n2', ['--description', 'Rack Row C']),
                                (65, 'n3', ['--lessee', 'p3']), (82, 'n3', ['--shard', 's3']),
                                (104, 'n2', ['--instance-name', 'i2']), (47, 'n1', ['--automated-clean']),
                                (31, 'n1', ['--power-interface', 'fake']), (95, 'n1', ['--disable-power-off'])]:
        if old.minor >= since:
            more[node] += option
    for name, uuid in NODES.items():
        made = old.data('node', 'create', '--driver', 'fake-hardware', '--uuid', uuid, '--extra', f'of={name}',
                        '--property', 'cpus=8', '--driver-info', 'ipmi_password=secret', *more[name])
        equal((made['uuid'], made['extra'], made['driver_info']), (uuid, {'of': name}, {'ipmi_password': '******'}))
        # What a version shows is what the command prints, whichever version made the node.
        equal(old.data('node', 'show', uuid), made)
        equal(new.data('node', 'show', uuid)['extra'], {'of': name})
    for name, fields in [('n1', ['--owner', 'p1']), ('n2', ['--owner', 'p1', '--instance-uuid', NODES['n2'].replace('-4', '-5')])]:
        new('node', 'set', NODES[name], *fields)
    new('node', 'maintenance', 'set', NODES['n3'], '--reason', 'why')
    # Below 1.11 nodes begin as available, and such a node is not retired through the API.
    database.write(f"UPDATE nodes SET retired=1 WHERE uuid='{NODES['n3']}'")


def lists(old):
    everything = ['n1', 'n2', 'n3']
    for since, options, found in [
            (1, [], everything), (1, ['--long'], everything), (1, ['--limit', '2'], everything[:2]),
            (1, ['--limit', '0'], everything), (1, ['--marker', NODES['n1']], ['n2', 'n3']),
            (1, ['--sort', 'uuid:desc'], ['n3', 'n2', 'n1']), (1, ['--maintenance'], ['n3']),
            (1, ['--no-maintenance'], ['n1', 'n2']), (1, ['--associated'], ['n2']), (1, ['--unassociated'], ['n1', 'n3']),
            (1, ['--retired'], ['n3']), (1, ['--no-retired'], ['n1', 'n2']),
            (9, ['--provision-state', 'enroll'], everything if old.minor >= 11 else []), (16, ['--driver', 'fake-hardware'], everything),
            (16, ['--driver', 'redfish'], []), (21, ['--resource-class', 'big'], ['n2']),
            (42, ['--fault', 'power failure'], []), (46, ['--conductor-group', ''], everything),
            (49, ['--conductor', 'nobody'], []), (50, ['--owner', 'p1'], ['n1', 'n2']), (65, ['--lessee', 'p3'], ['n3']),
            (1, ['--description-contains', 'Row'], ['n2'] if old.minor >= 51 else []), (82, ['--sharded'], ['n3']), (82, ['--unsharded'], ['n1', 'n2']),
            (82, ['--shards', 's3', 's4'], ['n3']), (83, ['--include-children'], everything),
            (83, ['--parent-node', NODES['n1']], []), (104, ['--instance-name', 'i2'], ['n2'])]:
        if old.minor >= since:
            equal(old.names(*options), found, str(options))
        else:
            old.refused(NEWER, 'node', 'list', *options)
    if old.minor >= 8:
        shown = old.data('node', 'list', '--fields', 'uuid', 'maintenance_reason', 'extra')
        equal(shown[2], {'uuid': NODES['n3'], 'maintenance_reason': 'why', 'extra': {'of': 'n3'}})
        shown = old.data('node', 'show', NODES['n3'], '--fields', 'uuid', 'maintenance')
        equal(shown, {'uuid': NODES['n3'], 'maintenance': True})
    else:
        old.refused(NEWER, 'node', 'list', '--fields', 'uuid', 'maintenance')
    old.refused('HTTP 404', 'node', 'list', '--marker', '0000000f-0000-4000-8000-00000000000f')


def changes(old, new):
    uuid = NODES['n1']
    old('node', 'set', uuid, '--extra', 'a=1', '--property', 'p=2', '--driver-info', 'd=3')
    shown = old.data('node', 'show', uuid)
    equal((shown['extra'], shown['properties']['p'], shown['driver_info']['d']), ({'of': 'n1', 'a': 1}, 2, 3))
    old('node', 'unset', uuid, '--extra', 'a', '--property', 'p')
    equal(old.data('node', 'show', uuid)['extra'], {'of': 'n1'})
    if old.minor >= 5:
        old('node', 'set', 'n1', '--name', 'other')
        equal(old.data('node', 'show', 'other')['name'], 'other')
        old.refused('already exists', 'node', 'set', 'other', '--name', 'n2')
    else:
        old.refused('could not be found', 'node', 'show', 'n1')
    for since, option, value, field in [(50, '--owner', 'p9', 'owner'), (51, '--description', 'd', 'description'),
                                        (65, '--lessee', 'l', 'lessee'), (21, '--resource-class', 'r', 'resource_class')]:
        if old.minor >= since:
            old('node', 'set', uuid, option, value)
            equal(old.data('node', 'show', uuid)[field], value)
            old('node', 'unset', uuid, option)
            equal(old.data('node', 'show', uuid)[field], None)
        else:
            old.refused(NEWER, 'node', 'set', uuid, option, value)

    old('node', 'maintenance', 'set', uuid, '--reason', 'grün \N{SNOWMAN}')
    shown = old.data('node', 'show', uuid)
    equal((shown['maintenance'], shown['maintenance_reason']), (True, 'grün \N{SNOWMAN}'))
    old('node', 'maintenance', 'unset', uuid)
    shown = old.data('node', 'show', uuid)
    equal((shown['maintenance'], shown['maintenance_reason']), (False, None))

    if old.minor >= 78:
        history = old.data('node', 'history', 'list', uuid, '--long')
        equal([h['event_type'] for h in history], ['maintenance', 'maintenance'])
        one = old.data('node', 'history', 'get', uuid, history[1]['uuid'])
        equal(one['event'], history[1]['event'])
        equal('project' in one, old.minor >= 113)
    else:
        old.refused('HTTP 404', 'node', 'history', 'list', uuid)
    for uuid in NODES.values():
        # An instance is not deleted with its node, except in maintenance.
        if uuid == NODES['n2']:
            old.refused('HTTP 409', 'node', 'delete', uuid)
            new('node', 'maintenance', 'set', uuid)
        old('node', 'delete', uuid)
    equal(old.names(), [])


def held_by_another_service():
    """The server waits two seconds and answers 409; the command asks again, five times, two seconds apart."""
    with Work() as work, Server(work, Sqlite(work).url) as server:
        database = Sqlite(work)
        command = Command(server, '1.115', retries=5)
        uuid = NODES['n1']
        command('node', 'create', '--driver', 'fake-hardware', '--uuid', uuid)
        database.write(f"UPDATE nodes SET reservation='other-conductor' WHERE uuid='{uuid}'")
        let_go = threading.Timer(5, database.write, [f"UPDATE nodes SET reservation=NULL WHERE uuid='{uuid}'"])
        let_go.start()
        command('node', 'maintenance', 'set', uuid, '--reason', 'waited')
        let_go.join()
        equal(command.data('node', 'show', uuid)['maintenance_reason'], 'waited')
        database.write(f"UPDATE nodes SET reservation='other-conductor' WHERE uuid='{uuid}'")
        began = time.monotonic()
        Command(server, '1.115').refused(f'Node {uuid} is locked by host other-conductor, please retry after the current operation is completed. (HTTP 409)',
                        'node', 'maintenance', 'unset', uuid)
        # Reads do not wait, and nothing was changed.
        print(f'# refused after {time.monotonic() - began:.1f} s')
        equal(command.data('node', 'show', uuid)['maintenance_reason'], 'waited')


if __name__ == '__main__':
    pathlib.Path(HOME).mkdir(parents=True, exist_ok=True)
    for name in [name for name in os.environ if name.startswith('OS_')]:
        del os.environ[name]
    os.environ.update(HOME=str(HOME), XDG_CACHE_HOME=str(HOME))
    report([life(version) for version in VERSIONS] + [('a node that another service holds', held_by_another_service)])
