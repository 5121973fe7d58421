"""The usage scenarios of the requirement text that need no projects: typed routes over HTTP, the old client beside."""
from harness import OLD, equal

DISK = 'Disk 3 has bad sectors, scheduled for replacement, see ticket https://myjira/CIDTEAM-3743'
POWER = 'Row C power work, change window CHG-2211'
MAINTENANCE = '/v1/nodes/myNode/maintenance'


def node(client):
    return client.data('node', 'create', '--driver', 'fake-hardware', '--name', 'myNode')['uuid']


def seen_by_old_clients(api):
    """What readers of the old fields see, at the highest version that they know."""
    shown = api.must(200, 'GET', '/v1/nodes/myNode?fields=maintenance,maintenance_reason', version=OLD).json
    return shown['maintenance'], shown['maintenance_reason']


def add(api, type_, reason):
    return api.must(201, 'POST', MAINTENANCE, {'type': type_, 'reason': reason})


def events(client):
    listed = client.data('node', 'history', 'list', 'myNode', '--long')
    return [(h['event'], h['user']) for h in listed]


def hardware_replacement_hold(api, client):
    uuid = node(client)
    answer = add(api, 'hardware_failure', DISK)
    entry = answer.json
    equal(list(entry), ['uuid', 'type', 'reason', 'scope', 'asserted_by', 'asserted_by_project', 'asserted_at', 'extra',
                        'links'])
    equal({k: entry[k] for k in ('type', 'reason', 'scope', 'asserted_by', 'asserted_by_project', 'extra')},
          {'type': 'hardware_failure', 'reason': DISK, 'scope': 'system', 'asserted_by': 'noauth',
           'asserted_by_project': '', 'extra': {}})
    itself = f'/v1/nodes/{uuid}/maintenance/{entry["uuid"]}'
    equal([link['href'] for link in entry['links'] if link['rel'] == 'self'], [f'http://127.0.0.1:{api.port}{itself}'])
    equal(answer.headers['location'].endswith(itself), True, answer.headers['location'])
    equal(api.must(200, 'GET', itself).json, entry)
    equal(seen_by_old_clients(api), (True, f'hardware_failure: {DISK}'))
    shown = client.data('node', 'show', '--fields', 'maintenance', 'maintenance_reason', '--', 'myNode')
    equal(shown, {'maintenance': True, 'maintenance_reason': f'hardware_failure: {DISK}'})
    api.must(404, 'GET', MAINTENANCE, version=OLD)
    api.must(404, 'POST', MAINTENANCE, {'type': 'operator_hold'}, version=OLD)
    for body in ({'type': 'legacy'}, {'type': 'fault'}, {'type': 'nosuch'}, {}, {'type': 'operator_hold', 'scope': 'owner'},
                 {'type': 'operator_hold', 'reason': 5}, {'type': 'operator_hold', 'extra': []}):
        api.must(400, 'POST', MAINTENANCE, body)
    api.must(404, 'POST', '/v1/nodes/nosuch/maintenance', {'type': 'operator_hold'})
    equal(api.must(200, 'GET', MAINTENANCE).json, {'maintenance': [entry]})


def second_hold(api, client):
    node(client)
    first = add(api, 'hardware_failure', DISK).json
    second = add(api, 'operator_hold', POWER).json
    equal(api.must(200, 'GET', MAINTENANCE).json, {'maintenance': [first, second]})
    equal(seen_by_old_clients(api), (True, f'hardware_failure: {DISK}; operator_hold: {POWER}'))
    again = api.must(409, 'POST', MAINTENANCE, {'type': 'operator_hold', 'reason': 'another'})
    for part in ('already exists', second['uuid'], second['asserted_at'], 'noauth'):
        equal(part in again.fault, True, f'{part} in {again.fault}')
    equal(api.must(200, 'GET', MAINTENANCE).json, {'maintenance': [first, second]})


def one_at_a_time(api, client):
    node(client)
    disk = add(api, 'hardware_failure', DISK).json
    power = add(api, 'operator_hold', POWER).json
    gone = f'{MAINTENANCE}/{power["uuid"]}'
    equal(api.must(204, 'DELETE', gone).text, '')
    api.must(404, 'DELETE', gone)
    equal(api.must(200, 'GET', MAINTENANCE).json, {'maintenance': [disk]})
    equal(seen_by_old_clients(api), (True, f'hardware_failure: {DISK}'))
    released = [(event, user) for event, user in events(client) if 'released' in event]
    equal(len(released), 1, str(released))
    event, user = released[0]
    equal(('operator_hold' in event, POWER in event, user), (True, True, 'noauth'), event)


def everything_at_once(api, client):
    node(client)
    for status, release in ((202, lambda: client('node', 'maintenance', 'unset', 'myNode')),
                            (204, lambda: api.must(204, 'DELETE', MAINTENANCE))):
        add(api, 'hardware_failure', DISK)
        add(api, 'operator_hold', POWER)
        client('node', 'maintenance', 'set', 'myNode', '--reason', 'and the boolean')
        equal(len(api.must(200, 'GET', MAINTENANCE).json['maintenance']), 3, f'before {status}')
        release()
        equal(api.must(200, 'GET', MAINTENANCE).json, {'maintenance': []})
        equal(seen_by_old_clients(api), (False, None))
    equal(len([event for event, _ in events(client) if 'released' in event]), 6)
    equal(api.must(202, 'DELETE', MAINTENANCE, version=OLD).text, '')


def legacy_automation(api, client):
    path = f'/v1/nodes/{node(client)}/maintenance'  # at 1.1 nodes have no names
    equal(api.must(202, 'PUT', path, {'reason': 'rebalancing rack'}, version='1.1').text, '')
    equal(seen_by_old_clients(api), (True, 'rebalancing rack'))
    [legacy] = api.must(200, 'GET', path).json['maintenance']
    equal((legacy['type'], legacy['scope'], legacy['asserted_by']), ('legacy', 'system', 'noauth'))
    api.must(202, 'PUT', path, {'reason': 'rebalancing rack again'}, version='1.1')
    equal(seen_by_old_clients(api), (True, 'rebalancing rack again'))
    equal(api.must(200, 'GET', path).json['maintenance'], [{**legacy, 'reason': 'rebalancing rack again'}])
    equal(api.must(202, 'DELETE', path, version='1.1').text, '')
    equal(seen_by_old_clients(api), (False, None))


SCENARIOS = [
    (1, 'hardware replacement hold', hardware_replacement_hold),
    (2, 'a second hold on a maintained node', second_hold),
    (3, 'releasing one hold at a time', one_at_a_time),
    (4, 'releasing everything at once', everything_at_once),
    (7, 'legacy automation, unchanged', legacy_automation),
]
