"""A real three-member Incus cluster, the BMCs that end its members, and what tells whether an instance ever ran twice.

`tests/labs/incus-cluster.sh` is the cluster, the example program `bmcs` of apelora-lab are the BMCs.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

from harness import APELORA, ROOT, TARGET, Api, Server, clean_environment, equal, eventually, free_port

SCRIPT = ROOT / 'tests/labs/incus-cluster.sh'
BMCS = TARGET / 'debug/examples/bmcs'
MEMBERS = ('m1', 'm2', 'm3')
OFFLINE_THRESHOLD = 11  # s, the lowest that Incus accepts
FENCE_AFTER = 20  # s, the lowest that the worker accepts
LEASE = 12  # s, how long the stand-in for sanlock keeps the lease of a host that is off
PREFIX = 'apelora-incus.'
PROJECT = 'shop'


def unused_network(ours):
    """The third number of a network for clients that no other lab on this machine has. The last one is of scripts/lab."""
    taken = subprocess.run(['ip', '-4', '-o', 'addr'], capture_output=True, text=True, check=True).stdout
    for step in range(255):
        number = (os.getpid() + step) % 255
        if f'198.19.{number}.' not in taken and number not in ours:
            return number
    raise AssertionError('255 labs run on this machine')


class Socket(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__('incus', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Refused(Exception):
    """Incus says no."""


class Cluster:
    """The cluster, in a folder of its own. Everything is ended and removed by `end`, whatever has happened."""

    networks = []

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir='/tmp'))
        # A run that was killed leaves a lab that belongs to nobody: this says whose it is.
        (self.folder / 'owner').write_text(str(os.getpid()))
        network = unused_network(self.networks)
        self.networks.append(network)
        self.environment = dict(
            os.environ, INCUS_LAB_TAG=f'ap{os.getpid()}{"abc"[len(self.networks) - 1]}', INCUS_LAB_NET1=f'198.18.{network}',
            INCUS_LAB_NET2=f'198.19.{network}', INCUS_LAB_OFFLINE_THRESHOLD=str(OFFLINE_THRESHOLD),
            INCUS_LAB_LEASE_SECS=str(LEASE))
        self.settings = {}

    def script(self, *arguments, check=True):
        with open(self.folder / 'lab.log', 'a', encoding='utf-8') as log:
            done = subprocess.run(['bash', SCRIPT, *arguments[:1], *arguments[1:2], self.folder, *arguments[2:]]
                                  if len(arguments) > 1 else ['bash', SCRIPT, *arguments, self.folder],
                                  env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                  text=True, timeout=600, check=False)
        if check and done.returncode:
            log = (self.folder / 'lab.log').read_text(errors='replace')
            raise AssertionError(f'incus-cluster.sh {" ".join(arguments)} ended with {done.returncode}:\n{log[-2000:]}')
        return done.stdout

    def start(self):
        self.script('start')
        self.script('image')
        for name, value in re.findall(r"^INCUS_LAB_(\w+)=('[^']*'|\S+)$", self.script('env'), re.M):
            self.settings[name] = value.strip("'")
        config = {f'features.{what}': 'false' for what in ('images', 'profiles', 'storage.volumes', 'networks')}
        self.ask('POST', '/1.0/projects', {'name': PROJECT, 'config': config})
        self.version = self.ask('GET', '/1.0')['environment']['server_version']

    def end(self):
        self.script('destroy', check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    # The API, over the socket of a member that answers.

    def ask(self, method, path, body=None, member=None, limit=40):
        """The metadata of the answer; of an operation when it has ended."""
        envelope = self.raw(method, path, body, member, limit)
        if envelope['type'] == 'async':
            envelope = self.wait(envelope['operation'].partition('?')[0], member or self.answering)
        if envelope['type'] == 'error':
            raise Refused(f'{method} {path}: {envelope["error_code"]} {envelope["error"]}')
        return envelope['metadata']

    def wait(self, operation, member):
        """The operation when it has ended. A member whose neighbour has just come back may refuse for some seconds to ask it;
        what the operation does goes on meanwhile, and the neighbour itself knows."""
        envelope = self.raw('GET', f'{operation}/wait?timeout=60', None, member, 70)
        for other in MEMBERS:
            if envelope['type'] != 'error' or "isn't ready yet" not in envelope['error']:
                break
            envelope = self.raw('GET', f'{operation}/wait?timeout=60', None, other, 70)
        return envelope

    def raw(self, method, path, body, member, limit):
        problem = None
        for name in [member] if member else MEMBERS:
            connection = Socket(self.folder / name / 'unix.socket', limit)
            try:
                connection.request(method, path, None if body is None else json.dumps(body))
                self.answering = name
                return json.loads(connection.getresponse().read())
            except OSError as why:
                problem = why
            finally:
                connection.close()
        raise Refused(f'{method} {path}: nobody answers: {problem}')

    def statuses(self, member=None, limit=3):
        """What the members are listed as; None when nobody says so."""
        try:
            listed = self.ask('GET', '/1.0/cluster/members?recursion=1', member=member, limit=limit)
        except (Refused, OSError, ValueError):
            return None
        return {one['server_name']: one['status'] for one in listed}

    def leader(self):
        listed = self.ask('GET', '/1.0/cluster/members?recursion=1')
        return next(one['server_name'] for one in listed if 'database-leader' in one['roles'])

    def all_online(self):
        """Every member says that every member is Online."""
        wanted = dict.fromkeys(MEMBERS, 'Online')
        return all(self.statuses(member) == wanted for member in MEMBERS)

    def is_ready(self, member):
        """A daemon answers before it has finished its start; instances are refused until then."""
        try:
            return self.raw('GET', '/internal/ready', None, member, 10)['type'] == 'sync'
        except (Refused, OSError, ValueError):
            return False

    def lease(self, seconds):
        """How long the storage keeps the lease of a host that is off, from now on; None: also when it is back."""
        (self.folder / 'san/lease').write_text(str(seconds or 86400))
        (self.folder / 'san/keep').write_text('no' if seconds else 'yes')

    def restricted_certificate(self):
        """A client certificate that may use two projects and nothing else: (certificate, key)."""
        certificate, key = self.folder / 'restricted.crt', self.folder / 'restricted.key'
        if not certificate.exists():
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384', '-nodes',
                            '-days', '30', '-subj', '/CN=worker', '-keyout', key, '-out', certificate],
                           check=True, capture_output=True)
            body = ''.join(certificate.read_text().splitlines()[1:-1])
            self.ask('POST', '/1.0/certificates', {'name': 'worker', 'type': 'client', 'restricted': True,
                                                   'projects': ['default', PROJECT], 'certificate': body})
        return certificate, key

    # Instances

    def make(self, name, member, project='default', pool='shared', run=True, **config):
        """A container that counts in its own volume and tells every number to the witness.

        Its member itself is asked: the others refuse for some seconds to pass anything on to one that has just come back."""
        config = {key.replace('_', '.'): value for key, value in config.items()}
        self.ask('POST', f'/1.0/instances?project={project}&target={member}', {
            'name': name, 'type': 'container', 'source': {'type': 'image', 'alias': 'tiny'},
            'config': {'raw.lxc': self.settings['WITNESS'], **config},
            'devices': {'root': {'type': 'disk', 'path': '/', 'pool': pool}}}, member=member)
        instance = Instance(self, project, name)
        if run:
            instance.start(member)
            instance.counts()
        return instance

    def recover(self):
        """The next scenario begins with a cluster that is well and empty, and with servers that run nothing unseen. A member
        that has just come back refuses this or that for a while: then all of it again."""
        until = time.monotonic() + 240
        while True:
            try:
                return self.make_well()
            except (Refused, OSError, ValueError) as why:
                if time.monotonic() > until:
                    raise
                print(f'# once more to a cluster that is well: {why}', flush=True)
                time.sleep(1)

    def make_well(self):
        self.heal_all()
        listed = {(one['location'], instance_title(one['project'], one['name']))
                  for one in self.ask('GET', '/1.0/instances?recursion=1&all-projects=true')}
        unseen = {member for member, title in self.running() - listed}
        if unseen:
            for member in unseen:
                self.script('poweroff', member)
            self.heal_all()
        self.clear()

    def heal_all(self):
        for member in MEMBERS:
            self.script('heal', member)
        eventually(lambda: all(self.statuses(member) and self.is_ready(member) for member in MEMBERS), 120,
                   'every member answers again')
        for member, status in (self.statuses() or {}).items():
            if status == 'Evacuated':
                self.ask('POST', f'/1.0/cluster/members/{member}/state', {'action': 'restore'}, member=member, limit=90)
        eventually(self.all_online, 120, 'the cluster is well again')

    def clear(self):
        """Deletes every instance."""
        for one in self.ask('GET', '/1.0/instances?recursion=1&all-projects=true'):
            path = f'/1.0/instances/{one["name"]}'
            member = one['location']
            if one['status'] != 'Stopped':
                self.ask('PUT', f'{path}/state?project={one["project"]}', {'action': 'stop', 'force': True}, member=member)
            self.ask('DELETE', f'{path}?project={one["project"]}', member=member)

    def running(self):
        """The truth: (member, project_name) of every container whose monitor process is there, whatever the API says."""
        found = set()
        for entry in pathlib.Path('/proc').iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    title = (entry / 'cmdline').read_bytes().rstrip(b'\0 ').decode(errors='replace')
                    seen = re.fullmatch(rf'\[lxc monitor\] {re.escape(str(self.folder))}/(m\d)/containers (\S+)', title)
                    if seen:
                        found.add(seen.groups())
        return found


def instance_title(project, name):
    """What the container is called outside of Incus."""
    return name if project == 'default' else f'{project}_{name}'


class Instance:
    """One container of the cluster."""

    def __init__(self, cluster, project, name):
        self.cluster, self.project, self.name = cluster, project, name
        self.witness = cluster.folder / 'witness' / name

    def __repr__(self):
        return f'{self.project}/{self.name}'

    def start(self, member=None):
        path = f'/1.0/instances/{self.name}/state?project={self.project}'
        self.cluster.ask('PUT', path, {'action': 'start'}, member=member)

    def listed(self):
        for one in self.cluster.ask('GET', '/1.0/instances?recursion=1&all-projects=true'):
            if (one['project'], one['name']) == (self.project, self.name):
                return one['location'], one['status']
        return None

    def lines(self):
        try:
            return self.witness.read_text().splitlines()
        except FileNotFoundError:
            return []

    def counts(self, starts=1, seconds=30):
        """Waits until it counts, in so many-th start of it."""
        def does():
            runs = lives(self.lines())
            return len(runs) >= starts and len(runs[-1].numbers) > 1
        eventually(does, seconds, f'{self} counts')

    def where(self):
        """The members that it really runs on."""
        title = instance_title(self.project, self.name)
        return sorted(member for member, running in self.cluster.running() if running == title)


class Life:
    """One start of one container."""

    def __init__(self, start, member):
        self.start, self.member, self.numbers, self.times = start, member, [], []


def lives(lines):
    """The starts in the order in which they are witnessed; a start that goes on after another one began is there twice."""
    found = []
    for line in lines:
        start, member, number, at = line.split()
        if not found or found[-1].start != start:
            found.append(Life(start, member))
        if number == 'failed':
            raise AssertionError(f'a write to its own storage failed on {member}')
        found[-1].numbers.append(int(number))
        found[-1].times.append(float(at))
    return found


def ran_once(lines):
    """What is wrong with a witness' account: nothing, if one start followed the other and each went on from what the one
    before had stored."""
    try:
        runs = lives(lines)
    except (AssertionError, ValueError) as why:
        return [str(why)]
    wrong = []
    starts = [run.start for run in runs]
    for start in sorted({start for start in starts if starts.count(start) > 1}):
        on = sorted({run.member for run in runs})
        wrong.append(f'start {start[:8]} wrote after another one had begun: it ran twice at once, on {", ".join(on)}')
    for before, run in zip([None, *runs], runs):
        first = before.numbers[-1] if before else 0
        # The last number before the end may have been stored and not told.
        if run.numbers[0] not in (first + 1, first + 2):
            wrong.append(f'start {run.start[:8]} on {run.member} began with {run.numbers[0]} after {first}')
        if run.numbers != list(range(run.numbers[0], run.numbers[0] + len(run.numbers))):
            wrong.append(f'start {run.start[:8]} on {run.member} lost count')
    times = [at for run in runs for at in run.times]
    if times != sorted(times):
        wrong.append('it was told in another order than it happened')
    return wrong


class Bmcs:
    """The BMCs of the members. What they switch off is ended by the lab; they read Off after that."""

    def __init__(self, cluster, folder):
        self.folder = pathlib.Path(folder) / 'bmcs'
        self.folder.mkdir()
        self.ended = self.folder / 'ended'
        hook = self.folder / 'hook'
        hook.write_text(f'#!/bin/sh\nbash "{SCRIPT}" poweroff "$1" "{cluster.folder}" &&\n'
                        f'  echo "$1 $(date +%s.%N)" >>"{self.ended}"\n')
        hook.chmod(0o700)
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen([BMCS, self.folder, hook, *MEMBERS], text=True, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log)
        self.map = self.answer().removeprefix('ready ')

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], 30)
        line = self.process.stdout.readline().rstrip('\n') if ready else ''
        if not line or line.startswith('error'):
            raise AssertionError(f'bmcs: {line or "no answer"}; see {self.folder / "log"}')
        return line

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        return self.answer()

    def asked(self):
        """How often each BMC was asked for a power-off."""
        found = re.findall(r'(\S+)=\S*?,asked:(\d+)', self.tell('status'))
        return {member: int(count) for member, count in found}

    def secrets(self):
        return dict(line.split('=', 1) for line in (self.folder / 'secrets.env').read_text().split())

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Worker:
    """`apelora worker`, with its log."""

    def __init__(self, work, name, environment):
        self.log_path = pathlib.Path(work) / f'{name}.log'
        self.environment = {**environment, 'APELORA_WORKER_LISTEN': f'127.0.0.1:{free_port()}', 'APELORA_HOST': name,
                            'APELORA_LOG_FORMAT': 'json'}
        self.process = None

    def start(self):
        with open(self.log_path, 'ab') as log:
            self.process = subprocess.Popen([APELORA, 'worker'], env=clean_environment(**self.environment),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def told(self):
        """What it tells people: (seconds since 1970, kind, sentence)."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for line in self.log_path.read_text(errors='replace').splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if 'kind' in row:
                    found.append((moment(row['timestamp']), row['kind'], row['message']))
        return found

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.is_alive():
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()


def moment(text):
    """Seconds since 1970 of an ISO 8601 time in UTC."""
    whole, _, part = text.rstrip('Z').removesuffix('+00:00').partition('.')
    return time.mktime(time.strptime(whole, '%Y-%m-%dT%H:%M:%S')) - time.timezone + float(f'0.{part or 0}')


class Watch(threading.Thread):
    """Looks at the processes of the containers all the time: every instance that was ever seen on two members at once."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.twice, self.looks = cluster, set(), 0
        self.enough = threading.Event()

    def run(self):
        while not self.enough.wait(0.25):
            self.looks += 1
            by_name = {}
            for member, name in self.cluster.running():
                by_name.setdefault(name, set()).add(member)
            self.twice |= {(name, *sorted(on)) for name, on in by_name.items() if len(on) > 1}

    def end(self):
        self.enough.set()
        self.join()


class Site:
    """The whole of it for one scenario: a fresh database, a server, a worker, BMCs, instances on a cluster that is well."""

    def __init__(self, name, cluster, work, database, restricted=False):
        self.name, self.cluster, self.work, self.database = name, cluster, work, database
        self.instances, self.workers, self.closing = [], [], contextlib.ExitStack()
        self.restricted = restricted
        self.began = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.end_processes)
            self.cluster.script('lock', 'ex')
            self.cluster.lease(LEASE)
            self.watch = Watch(self.cluster)
            self.watch.start()
            stack.callback(self.watch.end)
            self.bmcs = Bmcs(self.cluster, self.work)
            stack.callback(self.bmcs.end)
            self.server = stack.enter_context(Server(self.work, self.database.url, APELORA_LOG='warn'))
            self.api = self.server.api()
            for member in MEMBERS:
                self.api.must(201, 'POST', '/v1/nodes', {'driver': 'fake-hardware', 'name': member})
            self.closing = stack.pop_all()
        return self

    def __exit__(self, *failure):
        self.closing.close()
        self.cluster.recover()

    def end_processes(self):
        for worker in self.workers:
            if worker.is_alive():
                worker.kill()

    def say(self, text):
        print(f'# {self.name}: {text}', flush=True)

    def make(self, name, member, **more):
        instance = self.cluster.make(name, member, **more)
        self.instances.append(instance)
        return instance

    def worker(self, name='w1'):
        """Starts a worker, and waits until the first one leads and knows what runs where."""
        tls = self.cluster.restricted_certificate() if self.restricted else (
            self.cluster.settings['CERT'], self.cluster.settings['KEY'])
        environment = {
            'APELORA_DATABASE_URL': self.database.url,
            'APELORA_INCUS_URL': ','.join(self.cluster.settings[member.upper()] for member in MEMBERS),
            'APELORA_INCUS_CLIENT_CERT': str(tls[0]), 'APELORA_INCUS_CLIENT_KEY': str(tls[1]),
            'APELORA_INCUS_SERVER_CERT': self.cluster.settings['SERVER_CERT'],
            'APELORA_BMC_MAP': self.bmcs.map, 'APELORA_BMC_FENCE_AFTER_SECS': str(FENCE_AFTER), **self.bmcs.secrets()}
        if self.restricted:
            # What such a certificate cannot see, somebody has to say.
            environment.update(APELORA_INCUS_HEALING_OFF='1', APELORA_INCUS_SHARED_POOLS='shared')
        worker = Worker(self.work, name, environment)
        self.workers.append(worker)
        return worker.start()

    def knows(self):
        """Waits until a worker leads and every instance is in the stored inventory."""
        wanted = {(i.project, i.name) for i in self.instances}

        def all_there():
            stored = [json.loads(text) for (text,) in self.database.rows('SELECT instances FROM apelora_inventory')]
            return wanted <= {(i['project'], i['name']) for member in stored for i in member}
        eventually(all_there, 60, 'the worker leads and has stored what runs where')

    # What is asked while it goes on

    def broken(self):
        """Now something is broken; times are told from here."""
        self.began = time.time()

    def told(self, *kinds):
        return [row for worker in self.workers for row in worker.told() if not kinds or row[1] in kinds]

    def wait_for(self, kind, about, seconds):
        def found():
            for at, its_kind, sentence in self.told():
                if its_kind == kind and about in sentence and at > (self.began or 0):
                    return at, sentence
            return None
        return eventually(found, seconds, f'a worker tells `{kind}` of {about}')

    def steps(self):
        """How far the restart of each instance is, newest life last."""
        rows = self.database.rows('SELECT project, instance, step, target FROM apelora_recovery ORDER BY seq')
        return {f'{project}/{name}': (step, target) for project, name, step, target in rows}

    def get(self, path):
        # The server closes a connection that was idle for long.
        self.api.close()
        return self.api.must(200, 'GET', path).json

    def member(self, name):
        return self.get(f'/apelora/v1/members/{name}')

    def audit(self, **wanted):
        query = urllib.parse.urlencode(wanted)
        return self.get(f'/apelora/v1/audit?{query}')['audit']

    def times(self, member):
        """Prints when what happened, in seconds after the fault."""
        told = [row for row in self.told() if row[0] >= self.began]

        def first(kind, about=member):
            return next((at for at, its_kind, sentence in told if its_kind == kind and about in sentence), None)
        ends = [at for at, kind, _ in told if kind == 'started']
        off = [float(line.split()[1]) for line in self.bmcs.ended.read_text().splitlines() if line.startswith(member)] \
            if self.bmcs.ended.exists() else []
        marks = [('Offline', first('grace')), ('grace over', first('intent')), ('power-off sent', first('sent')),
                 ('machine gone', off[-1] if off else None), ('proven off', first('fenced')),
                 ('first start', min(ends, default=None)), ('last start', max(ends, default=None))]
        shown = ', '.join(f'{what} {at - self.began:.1f}' for what, at in marks if at)
        self.say(f'{member}, seconds after the fault: {shown}')

    # What must hold in the end

    def nothing_ran_twice(self):
        equal(self.watch.twice, set(), 'containers whose processes were seen on two members at once')
        assert self.watch.looks > 20, 'the processes were looked at too seldom'
        counted = 0
        for instance in self.instances:
            lines = instance.lines()
            wrong = ran_once(lines)
            assert not wrong, f'{instance}: ' + '; '.join(wrong)
            counted += len(lines)
        self.say(f'{len(self.instances)} instances wrote {counted} numbers, each once')

    def runs_elsewhere(self, instance, than):
        """It runs on exactly one member, which is another one, and counts there from what it had stored."""
        instance.counts(starts=2)
        on = instance.where()
        assert len(on) == 1 and on != [than], f'{instance} runs on {on}'
        equal(instance.listed(), (on[0], 'Running'), str(instance))
        return on[0]

    def power_offs(self, **wanted):
        """Exactly these power-offs were asked for, by the BMCs' own count."""
        equal(self.bmcs.asked(), {**dict.fromkeys(MEMBERS, 0), **wanted}, 'power-offs by the BMCs')
