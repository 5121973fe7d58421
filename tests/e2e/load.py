"""Load with a memory: each worker owns nodes, knows what every acknowledged change left, and what one change that was not
answered may have left."""
import http.client
import random
import threading
import time

from harness import Api

TYPES = ('hardware_failure', 'operator_hold')
ANY = object()  # an entry's uuid that nobody told us


class WrongAnswer(AssertionError):
    """The server said something that it must not say."""


class OwnNode:
    """A node that one worker alone changes. A state is None (no such node), or {type: (uuid, reason)}."""

    def __init__(self, name):
        self.name = name
        self.path = f'/v1/nodes/{name}'
        self.possible = [None]  # one state, or two after a change without an answer

    def known(self):
        [state] = self.possible
        return state

    def read(self, api):
        """The node as the API shows it; None when there is none."""
        node = api('GET', f'{self.path}?fields=maintenance,maintenance_reason')
        if node.status == 404:
            return None
        if node.status != 200:
            raise WrongAnswer(f'GET {self.name}: {node}')
        listed = api.must(200, 'GET', f'{self.path}/maintenance').json['maintenance']
        shown = node.json
        if shown['maintenance'] != bool(listed):
            raise WrongAnswer(f'{self.name}: flag {shown} with entries {listed}')
        return {e['type']: (e['uuid'], e['reason']) for e in listed}

    def verify(self, api):
        """What is there must be what was acknowledged, or that and the one change without an answer."""
        actual = self.read(api)
        if not any(same(actual, state) for state in self.possible):
            raise WrongAnswer(f'{self.name}: is {actual}, may be {self.possible}')
        self.possible = [actual]

    def next_change(self, pick):
        """A change that must succeed: (method, path, body, statuses, the state that it leaves)."""
        state = self.known()
        if state is None:
            return 'POST', '/v1/nodes', {'driver': 'fake-hardware', 'name': self.name}, (201,), {}
        maintenance = f'{self.path}/maintenance'
        reason = f'{self.name} {pick.randrange(1 << 30)}'
        free = [t for t in TYPES if t not in state]
        held = [t for t in TYPES if t in state and state[t][0] is not ANY]
        choices = ['set', 'set'] + ['add'] * 2 * len(free) + ['release'] * len(held) + ['all']
        if pick.random() < 0.05:
            return 'DELETE', self.path, None, (204,), None
        match pick.choice(choices):
            case 'set':
                return 'PUT', maintenance, {'reason': reason}, (202,), {
                    **state, 'legacy': (state.get('legacy', (ANY,))[0], reason)}
            case 'add':
                type_ = pick.choice(free)
                return 'POST', maintenance, {'type': type_, 'reason': reason}, (201,), {**state, type_: (ANY, reason)}
            case 'release':
                type_ = pick.choice(held)
                return 'DELETE', f'{maintenance}/{state[type_][0]}', None, (204,), {
                    t: e for t, e in state.items() if t != type_}
            case 'all':
                return 'DELETE', maintenance, None, (204,), {}


def same(actual, state):
    if actual is None or state is None:
        return actual is state
    return actual.keys() == state.keys() and all(
        reason == actual[t][1] and uuid in (ANY, actual[t][0]) for t, (uuid, reason) in state.items())


class Worker(threading.Thread):
    """Changes its own nodes until told to stop, or until the server is gone."""

    def __init__(self, number, ports, nodes, seed, rides_out_503=False):
        super().__init__(daemon=True)
        self.apis = [Api(port) for port in ports]
        self.nodes, self.pick = nodes, random.Random(f'{seed}-{number}')
        self.rides_out_503 = rides_out_503
        self.stopping = threading.Event()
        self.acknowledged = self.refused = 0
        self.failure = None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.change(self.pick.choice(self.nodes), self.pick.choice(self.apis))
        except (OSError, http.client.HTTPException) as failure:
            # The server is gone: what a crash is about, and wrong everywhere else.
            if self.rides_out_503:
                self.failure = failure
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure
        finally:
            for api in self.apis:
                api.close()

    def change(self, node, api):
        method, path, body, statuses, after = node.next_change(self.pick)
        before = node.known()
        node.possible = [before, after]
        answer = api(method, path, body)
        if answer.status in statuses:
            self.acknowledged += 1
            if body and 'type' in body:
                after[body['type']] = (answer.json['uuid'], body['reason'])
            node.possible = [after]
        elif answer.status == 503 and self.rides_out_503:
            self.refused += 1
            if 'retry-after' not in answer.headers:
                raise WrongAnswer(f'503 without Retry-After: {answer}')
            # Unless it says that it does not know, it says that nothing was changed.
            if 'did not confirm' not in answer.fault:
                node.possible = [before]
            self.wait_and_verify(node, api)
        else:
            raise WrongAnswer(f'{method} {path} {body} in state {before}: {answer}')

    def wait_and_verify(self, node, api):
        while not self.stopping.is_set():
            if api('GET', f'{node.path}?fields=uuid').status != 503:
                node.verify(api)
                return
            time.sleep(0.05)

    def end(self):
        self.stopping.set()
        self.join(60)
        if self.failure:
            raise self.failure
