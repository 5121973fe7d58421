"""A real three-member Incus cluster whose members fail: the worker ends them with proof, their instances run elsewhere, and
no instance ever runs twice. The BMCs are simulated and really end the member; containers, cluster and moves are real.

  incus.py [NAME ...]     without names every scenario; their names stand at their functions
"""
import contextlib
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

from databases import Postgres, Sqlite
from harness import ROOT, Work, apelora, equal, eventually, report
from incus_lab import (FENCE_AFTER, MEMBERS, OFFLINE_THRESHOLD, PREFIX, PROJECT, SCRIPT, Cluster, Refused, Site, ran_once)

# How long something may take before a run is called hung. Nothing is judged by it.
LONG = 180


def killed(site):
    """A member loses its power: nothing on it runs any more, and its BMC reads Off."""
    web, db, batch, idle, cache, other = mixed(site, 'kill', 'm3')
    site.worker()
    site.knows()
    site.broken()
    site.bmcs.tell('lose m3')
    site.wait_for('recovered', 'm3', LONG)
    site.times('m3')
    for instance in (web, db):
        site.runs_elsewhere(instance, 'm3')
    for instance in (batch, idle):
        equal(instance.where(), [], f'{instance} is not started, as it is configured')
        assert instance.listed()[0] != 'm3', f'{instance} was not moved'
    equal(cache.listed()[0], 'm3', 'what is on a local pool stays')
    equal(site.steps()[str(cache)][0], 'stays')
    equal(len(other.where()), 1, 'what ran elsewhere runs on')
    equal(site.bmcs.asked(), dict.fromkeys(MEMBERS, 0), 'a server that is off is not switched off')
    audited(site, 'm3', sent=False)


def cut(site):
    """A member that loses the cluster's network runs on, and writes, until its BMC ends it."""
    site.cluster.script('lock', 'sh')  # what Incus 6.0.4 asks for: the storage stops nobody, the worker has to
    web, db, batch, idle, cache, other = mixed(site, 'cut', 'm3')
    site.worker()
    site.knows()
    site.broken()
    site.cluster.script('cut', 'm3', 'cluster')
    site.wait_for('grace', 'm3', LONG)
    before = len(web.lines())
    eventually(lambda: len(web.lines()) > before, 20, 'the member that is cut off writes on')
    equal(web.where(), ['m3'])
    site.wait_for('recovered', 'm3', LONG)
    site.times('m3')
    for instance in (web, db):
        site.runs_elsewhere(instance, 'm3')
    for instance in (batch, idle):
        equal(instance.where(), [], f'{instance} is not started, as it is configured')
    equal(cache.where(), [], 'what is on a local pool ended with its member')
    equal(len(other.where()), 1, 'what ran elsewhere runs on')
    site.power_offs(m3=1)
    audited(site, 'm3', sent=True)
    shown(site, 'm3')
    # It comes back, with the network: what was moved does not start there again.
    site.bmcs.tell('on m3')
    site.cluster.script('heal', 'm3')
    eventually(site.cluster.all_online, 90, 'm3 is back')
    cache.counts(starts=2)
    eventually(lambda: not fault_entries(site, 'm3'), 60, 'its node is released again')
    for instance in (web, db):
        site.runs_elsewhere(instance, 'm3')


def frozen(site):
    """A member that stands still could go on at any moment; its BMC ends it."""
    web = site.make('freeze-web', 'm2')
    site.make('freeze-other', 'm1')
    site.worker()
    site.knows()
    site.broken()
    site.cluster.script('freeze', 'm2')
    site.wait_for('recovered', 'm2', LONG)
    site.times('m2')
    site.runs_elsewhere(web, 'm2')
    site.power_offs(m2=1)


def false_offline(site):
    """The database leader dies: healthy members are listed Offline for a moment, and only the dead one is switched off."""
    leader = site.cluster.leader()
    others = [member for member in MEMBERS if member != leader]
    web = site.make('leader-web', leader)
    rest = [site.make(f'leader-{member}', member) for member in others]
    site.worker()
    site.knows()
    with Pictures(site.cluster, others) as pictures:
        site.broken()
        site.cluster.script('kill', leader)
        site.wait_for('recovered', leader, LONG)
    site.times(leader)
    wrong = [picture for picture in pictures.seen if any(picture[member] == 'Offline' for member in others)]
    site.say(f'{len(pictures.seen)} member lists were read meanwhile, {len(wrong)} of them call a healthy member Offline')
    site.runs_elsewhere(web, leader)
    for member, instance in zip(others, rest):
        equal(instance.where(), [member], f'{instance} was left alone')
        equal(len({line.split()[0] for line in instance.lines()}), 1, f'starts of {instance}')
    site.power_offs(**{leader: 1})
    for member in others:
        done = {row['action'] for row in site.audit(member=member)} - {'cluster.bmc.checked'}
        equal(done, set(), f'what was done to {member}')


def quorum_lost(site):
    """Two of three stand still for long; afterwards all are called Offline for a moment: nothing is switched off."""
    instances = [site.make(f'quorum-{member}', member) for member in MEMBERS]
    site.worker()
    site.knows()
    site.broken()
    for member in ('m2', 'm3'):
        site.cluster.script('freeze', member)
    site.wait_for('cluster_unreadable', '', LONG)
    # Long enough that a worker that trusts the age in the cluster's messages would act at once.
    until = time.monotonic() + OFFLINE_THRESHOLD + FENCE_AFTER + 5
    while time.monotonic() < until:
        equal(site.bmcs.asked(), dict.fromkeys(MEMBERS, 0))
        time.sleep(1)
    with Pictures(site.cluster, MEMBERS) as pictures:
        for member in ('m2', 'm3'):
            site.cluster.script('thaw', member)
        eventually(site.cluster.all_online, 90, 'the cluster is well again')
        site.wait_for('cluster_readable', '', 60)
        time.sleep(FENCE_AFTER + 10)
    wrong = sum('Offline' in picture.values() for picture in pictures.seen)
    site.say(f'{len(pictures.seen)} member lists were read afterwards, {wrong} of them call a healthy member Offline')
    site.power_offs()
    for instance in instances:
        equal(len({line.split()[0] for line in instance.lines()}), 1, f'starts of {instance}')


def evacuated(site):
    """An evacuated member that dies keeps the status Evacuated, which says neither dead nor alive: nothing is done."""
    web = site.make('evacuate-web', 'm3')
    stay = site.make('evacuate-stay', 'm3', cluster_evacuate='stop')
    site.worker()
    site.knows()
    site.cluster.ask('POST', '/1.0/cluster/members/m3/state', {'action': 'evacuate'}, limit=90)
    web.counts(starts=2)
    equal(stay.where(), [], 'what is not to be moved is stopped')
    site.broken()
    site.bmcs.tell('lose m3')
    time.sleep(OFFLINE_THRESHOLD + FENCE_AFTER + 15)
    equal(site.cluster.statuses('m1')['m3'], 'Evacuated')
    equal([row for row in site.told('intent', 'fenced', 'moved', 'started')], [])
    site.power_offs()
    equal(stay.listed()[0], 'm3', 'it was left where it is')
    equal(len({line.split()[0] for line in web.lines()}), 2, f'starts of {web}')


def returned(site):
    """A member comes back while its instances are being restarted: what was begun ends loudly, nothing runs twice."""
    instances = [site.make(f'return-{number}', 'm3', project=project)
                 for number, project in enumerate(['default', PROJECT] * 3)]
    site.cluster.lease(3600)
    site.worker()
    site.knows()
    site.broken()
    site.cluster.script('cut', 'm3', 'all')
    # The storage keeps the dead host's leases until it boots: the starts fail, and are tried again.
    eventually(lambda: 'starting' in [step for step, _ in site.steps().values()], LONG, 'a restart is under way')
    site.bmcs.tell('on m3')
    site.cluster.script('heal', 'm3')
    eventually(site.cluster.all_online, 90, 'm3 is back')
    site.wait_for('recovered', 'm3', LONG)
    site.times('m3')
    settled(site)
    ends, unseen = site.steps(), 0
    site.say(f'restarts ended as {sorted(step for step, _ in ends.values())}')
    for instance in instances:
        step, target = ends.get(str(instance), (None, None))
        where, listed = instance.where(), instance.listed()
        assert len(where) <= 1, f'{instance} runs on {where}'
        if step == 'done':
            equal(where, [target], f'{instance}, restarted elsewhere')
        elif step is None or listed[0] == 'm3':
            equal(where, ['m3'], f'{instance}, which was not moved, starts at home')
        else:
            # Moved and not started, or moved in the moment in which its server booted and started it: Incus shows it as
            # stopped then, and the worker has to say that it may run on m3.
            assert step == 'gave_up' and where in ([], ['m3']), f'{instance}: {step}, runs on {where}'
            equal(listed[1], 'Stopped', str(instance))
            site.wait_for('gave_up', f'{instance.name} (project {instance.project}) was given up: m3 is not proven off', 5)
            unseen += where == ['m3']
    site.say(f'{unseen} of those given up run on m3 without being shown there')
    assert any(step == 'gave_up' for step, _ in ends.values()), 'the member came back too late to disturb anything'
    site.power_offs(m3=1)
    # Somebody makes sure that the server runs none of them, and starts what was left.
    site.cluster.script('poweroff', 'm3')
    left = [instance for instance in instances if ends.get(str(instance), ('',))[0] == 'gave_up' and not instance.where()]
    for instance in left:
        if instance.listed()[0] != 'm3':
            runs = len({line.split()[0] for line in instance.lines()})
            eventually(lambda one=instance: starts(one), 60, f'{instance} starts by hand')
            instance.counts(starts=runs + 1)


def killed_worker(engine, steps):
    def scenario(site):
        instances = [site.make(f'steps-{number}', 'm3', project=project)
                     for number, project in enumerate(['default', PROJECT] * 3)]
        worker = site.worker()
        site.knows()
        site.broken()
        site.cluster.script('cut', 'm3', 'cluster')
        for step in steps:
            eventually(lambda: reached(site, step), LONG, f'the worker reaches {step}')
            at = time.time() - site.began
            worker.kill()
            found = sorted(step for step, _ in site.steps().values())
            site.say(f'kill -9 of the worker {at:.1f} s after the fault, for {step}: restarts are '
                     f'{", ".join(found) or "none"}')
            worker = site.worker(f'w{len(site.workers) + 1}')
        eventually(lambda: [step for step, _ in site.steps().values()] == ['done'] * len(instances),
                   LONG, 'everything is restarted')
        site.times('m3')
        for instance in instances:
            site.runs_elsewhere(instance, 'm3')
            equal(len({line.split()[0] for line in instance.lines()}), 2, f'starts of {instance}')
        site.power_offs(m3=1)
    scenario.__doc__ = f'kill -9 of the worker at {", ".join(steps)} on {engine.name}: nothing is repeated or forgotten.'
    scenario.engine = engine
    return scenario


ORDER = ('fenced', 'planned', 'moving', 'moved', 'starting', 'done')


def reached(site, step):
    """Whether a restart is in this step, or, when it was too short to be seen, all of them are beyond it."""
    if step == 'fenced':
        return site.database.rows('SELECT id FROM apelora_proof')
    found = [ORDER.index(one) for one, _ in site.steps().values() if one in ORDER]
    return found and (ORDER.index(step) in found or min(found) > ORDER.index(step))


def killed_sender(site):
    """kill -9 of the worker between permit and answer: the next one sends nothing, and a person's word is needed."""
    web = site.make('sender-web', 'm3')
    worker = site.worker()
    site.knows()
    site.bmcs.tell('trouble m3 ignores')
    site.broken()
    site.cluster.script('cut', 'm3', 'cluster')
    eventually(lambda: site.database.rows('SELECT id FROM apelora_fence_record WHERE permit_at IS NOT NULL'), LONG,
               'a power-off is permitted')
    worker.kill()
    site.worker('w2')
    site.wait_for('adopted', 'm3', LONG)
    site.wait_for('ended', 'm3', LONG)
    asked = site.bmcs.asked()
    assert asked['m3'] <= 1, f'sent more than once: {asked}'
    equal(web.where(), ['m3'], 'it still runs, and nowhere else')
    equal(site.steps(), {})
    site.cluster.script('poweroff', 'm3')  # somebody pulls the plug, and says so
    apelora('member', 'confirm-off', 'm3', '--reason', 'pulled the plug', '--yes', 'm3', APELORA_ENDPOINT=site.server.url)
    site.wait_for('recovered', 'm3', LONG)
    site.times('m3')
    site.runs_elsewhere(web, 'm3')
    equal(site.bmcs.asked(), asked, 'nothing more was sent')


def unguarded(site):
    """Without any of it, moving what a cut member still runs makes it run twice; the witness and the watch see that."""
    site.cluster.script('lock', 'sh')
    web = site.make('twice-web', 'm3')
    site.broken()
    site.cluster.script('cut', 'm3', 'cluster')
    eventually(lambda: (site.cluster.statuses('m1') or {}).get('m3') == 'Offline', 90, 'm3 is Offline')
    site.cluster.ask('POST', f'/1.0/instances/{web.name}?project=default&target=m1', {'migration': True}, member='m1')
    site.cluster.ask('PUT', f'/1.0/instances/{web.name}/state?project=default', {'action': 'start'}, member='m1')
    eventually(lambda: web.where() == ['m1', 'm3'], 30, 'it runs twice')
    eventually(lambda: ran_once(web.lines()), 30, 'the witness tells')
    eventually(lambda: site.watch.twice, 30, 'the watch tells')
    site.say(f'{"; ".join(ran_once(web.lines())[:1])}')
    site.cluster.script('poweroff', 'm3')
    site.watch.twice.clear()
    site.instances.clear()


# Parts of scenarios

def mixed(site, name, member):
    """One instance of each kind on a member, and one on another."""
    return [
        site.make(f'{name}-web', member),
        site.make(f'{name}-db', member, project=PROJECT, boot_autostart='true'),
        site.make(f'{name}-batch', member, boot_autostart='false'),
        site.make(f'{name}-idle', member, run=False),
        site.make(f'{name}-cache', member, pool='local'),
        site.make(f'{name}-other', next(m for m in MEMBERS if m != member)),
    ]


class Pictures(threading.Thread):
    """Every member list that members give meanwhile."""

    def __init__(self, cluster, asked):
        super().__init__(daemon=True)
        self.cluster, self.asked, self.seen, self.enough = cluster, asked, [], threading.Event()

    def run(self):
        while not self.enough.wait(0.1):
            for member in self.asked:
                picture = self.cluster.statuses(member, limit=2)
                if picture:
                    self.seen.append(picture)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.join()


def starts(instance):
    try:
        instance.start()
        return True
    except Refused:
        return False


def settled(site):
    """Every restart has ended."""
    ended = ('done', 'stays', 'gave_up')
    eventually(lambda: all(step in ended for step, _ in site.steps().values()), LONG, 'every restart has ended')


def fault_entries(site, name):
    listed = site.get(f'/v1/nodes/{name}/maintenance')
    return [entry for entry in listed['maintenance'] if entry['type'] == 'fault']


def audited(site, member, sent):
    """The trail tells the power-off, its proof and every restart, and the node of the member says so."""
    rows = site.audit(member=member)
    actions = [row['action'] for row in rows]
    for action in ('cluster.member.power_off', 'cluster.member.fenced', 'cluster.member.recovered'):
        assert action in actions, f'{action} is not in the trail of {member}: {actions}'
    off = next(row for row in rows if row['action'] == 'cluster.member.power_off')
    equal((off['outcome'], off['evidence']['sent']), ('success', sent), 'the power-off in the trail')
    equal(len(fault_entries(site, member)), 1, f'fault entries of the node {member}')


def shown(site, member):
    """What a person sees."""
    table = apelora('member', 'list', APELORA_ENDPOINT=site.server.url)
    row = next(line for line in table.splitlines() if line.startswith(member))
    assert 'Offline' in row and 'power-off' in row, table
    text = apelora('audit', 'list', '--member', member, APELORA_ENDPOINT=site.server.url)
    assert 'cluster.member.recovered' in text, text


def witness():
    """The judgement of a witness' account sees each way in which an instance can run twice or lose what it stored."""
    good = ['a m1 1 1.0', 'a m1 2 1.2', 'b m2 3 9.0', 'b m2 4 9.2']
    equal(ran_once(good), [])
    equal(ran_once(good[:2] + ['b m2 4 9.0', 'b m2 5 9.2']), [], 'one number stored and not told')
    for what, lines in {
        'two at once': ['a m1 1 1.0', 'b m2 2 1.1', 'a m1 2 1.2', 'b m2 3 1.3'],
        'one more word of the old one': good + ['a m1 3 9.4'],
        'the new one began from older storage': good[:2] + ['b m2 2 9.0'],
        'the new one began anew': good[:2] + ['b m2 1 9.0'],
        'a gap': ['a m1 1 1.0', 'a m1 3 1.2'],
        'twice the same number': ['a m1 1 1.0', 'a m1 1 1.2'],
        'a failed write': ['a m1 1 1.0', 'a m1 failed 0'],
        'half a line': ['a m1'],
    }.items():
        assert ran_once(lines), f'not seen: {what}'


# What is run

SCENARIOS = {  # the longest first
    'kill-worker-postgresql': killed_worker(Postgres, ORDER),
    'kill-sender': killed_sender,
    'kill-worker': killed_worker(Sqlite, ('moving', 'starting')),
    'cut': cut,
    'return': returned,
    'false-offline': false_offline,
    'quorum': quorum_lost,
    'kill': killed,
    'evacuate': evacuated,
    'freeze': frozen,
    'unguarded': unguarded,
}


def case(pool, name):
    scenario = SCENARIOS[name]

    def run():
        cluster = pool.get()
        try:
            if not cluster.settings:
                raise AssertionError('the cluster did not start')
            with Work() as work:
                database = getattr(scenario, 'engine', Sqlite)(work)
                with Site(name, cluster, work, database, restricted=name in ('cut', 'freeze')) as site:
                    scenario(site)
                    site.nothing_ran_twice()
                database.drop()
        finally:
            pool.put(cluster)
    return f'{name}: {" ".join(scenario.__doc__.split())}', run


def started(pool, cluster):
    def run():
        began = time.monotonic()
        try:
            cluster.start()
            print(f'# Incus {cluster.version}, three members Online after {time.monotonic() - began:.1f} s; '
                  f'offline threshold {OFFLINE_THRESHOLD} s, grace {FENCE_AFTER} s', flush=True)
        finally:
            pool.put(cluster)
    return 'a real cluster of three members starts', run


def clean_up():
    """Removes the labs of runs that were killed."""
    for folder in pathlib.Path('/tmp').glob(f'{PREFIX}*'):
        try:
            owner = int((folder / 'owner').read_text())
            pathlib.Path(f'/proc/{owner}').stat()
        except FileNotFoundError:
            subprocess.run(['bash', SCRIPT, 'destroy', folder], stdin=subprocess.DEVNULL, check=False, timeout=120)
            shutil.rmtree(folder, ignore_errors=True)
        except (OSError, ValueError):
            pass


def end_at(clusters, *signals):
    """However it is ended, the labs end with it, and what this process has started."""
    def end(number, _frame):
        children = subprocess.run(['pgrep', '-P', str(os.getpid())], capture_output=True, text=True, check=False)
        for child in children.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        for cluster in clusters:
            cluster.end()
        os._exit(128 + number)
    for one in signals:
        signal.signal(one, end)


if __name__ == '__main__':
    names = sys.argv[1:] or list(SCENARIOS)
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        sys.exit(f'no scenario {unknown[0]}; scenarios are: {", ".join(SCENARIOS)}')
    os.chdir(ROOT)
    clean_up()
    # Most of the time is spent waiting: two clusters beside each other take half of it.
    labs = [Cluster() for _ in range(min(2, len(names)))]
    end_at(labs, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ready = queue.SimpleQueue()
    try:
        report([('the witness is judged', witness)] + [started(ready, lab) for lab in labs]
               + [case(ready, name) for name in names], at_once=len(labs))
    finally:
        for lab in labs:
            lab.end()
