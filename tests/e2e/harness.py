"""What the end-to-end suites share: the server under test, a client without manners, and the report.

A suite is a list of (name, function). It reports in the Test Anything Protocol: one line for each case, the cause of a
failure behind `#`, the plan at the end.
"""
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get('CARGO_TARGET_DIR', ROOT / 'target'))
APELORA = TARGET / 'debug' / 'apelora'
NEW = '1.116'  # the microversion of typed maintenance
OLD = '1.115'  # the highest one that other clients know


class Skip(Exception):
    """The case cannot run here; the reason is one of those that scripts/test accepts."""


def report(cases, at_once=1):
    """Runs the cases, so many of them at once, and exits with 1 if one of them failed."""
    def judge(numbered):
        number, (name, case) = numbered
        began, cause = time.monotonic(), ''
        try:
            case()
            line = f'ok {number} - {name}'
        except Skip as why:
            line = f'ok {number} - {name} # SKIP {why}'
        except (Exception, SystemExit):  # pylint: disable=broad-except
            line, cause = f'not ok {number} - {name}', traceback.format_exc()
        return f'{cause}{line}\n# {time.monotonic() - began:.1f} s'

    failed = False
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for told in pool.map(judge, enumerate(cases, 1)):
            failed |= '\nnot ok ' in f'\n{told}'
            print(told, flush=True)
    print(f'1..{len(cases)}', flush=True)
    sys.exit(1 if failed else 0)


def equal(got, wanted, what=''):
    if got != wanted:
        raise AssertionError(f'{what + ": " if what else ""}got {got!r}, wanted {wanted!r}')


def eventually(check, seconds, what):
    """Waits for something that another process does; the time limit only ends a run that hangs."""
    until = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f'not within {seconds} s: {what}')
        time.sleep(0.02)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def clean_environment(**more):
    """The environment without settings of a service that may run on this machine."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('APELORA_', 'OS_'))}
    return {**kept, **more}


def apelora(*arguments, code=0, **environment):
    """Runs the command to its end and gives what it printed."""
    done = subprocess.run([APELORA, *arguments], env=clean_environment(**environment), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    if done.returncode != code:
        raise AssertionError(f'apelora {" ".join(map(str, arguments))}: exit code {done.returncode}, '
                             f'wanted {code}\n{done.stdout}{done.stderr}')
    return done.stdout


class Answer:
    """Status, headers (lower case) and body of one answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def fault(self):
        """The sentence of an error, out of the text that holds JSON."""
        message = self.json['error_message']
        return (json.loads(message) if isinstance(message, str) else message).get('faultstring', message)

    def __repr__(self):
        return f'{self.status} {self.text[:500]}'


class Api:
    """One kept connection to a server; never retries."""

    def __init__(self, port, version=NEW, timeout=30, headers=None):
        self.port, self.version, self.timeout, self.headers = port, version, timeout, headers or {}
        self.connection = None

    def __call__(self, method, path, body=None, version=None):
        headers = {'X-OpenStack-Ironic-API-Version': version or self.version, 'Accept': 'application/json',
                   **self.headers}
        if body is not None:
            headers['Content-Type'] = 'application/json'
            body = json.dumps(body).encode()
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=self.timeout)
            self.connection.request(method, path, body, headers)
            return Answer(self.connection.getresponse())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def must(self, status, method, path, body=None, version=None):
        answer = self(method, path, body, version)
        if answer.status != status:
            raise AssertionError(f'{method} {path} {body}: got {answer}, wanted {status}')
        return answer

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Server:
    """`apelora server` on a free loopback port, with its log in the work folder."""

    def __init__(self, work, database_url, *arguments, name='server', **environment):
        self.log_path = pathlib.Path(work) / f'{name}.log'
        self.command = [APELORA, 'server', '--database-url', database_url, *arguments]
        self.environment = clean_environment(**environment)
        self.process = self.port = None

    def start(self, port=None):
        self.port = port or free_port()
        with open(self.log_path, 'ab') as log:
            self.process = subprocess.Popen([*self.command, '--listen', f'127.0.0.1:{self.port}'],
                                            env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self.ready, 60, f'server ready, see {self.log_path}')
        return self

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f'server ended with {self.process.returncode}:\n{self.log()[-3000:]}')
        api = Api(self.port, timeout=5)
        try:
            return api('GET', '/readyz').status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            api.close()

    def log(self):
        return self.log_path.read_text(errors='replace')

    @property
    def url(self):
        return f'http://127.0.0.1:{self.port}'

    def api(self, **options):
        return Api(self.port, **options)

    def kill(self):
        """kill -9: no handler runs, nothing is flushed."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Asks it to stop and gives its exit code."""
        if self.process is None or self.process.poll() is not None:
            return self.process and self.process.returncode
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError('server did not stop within 60 s of SIGTERM') from None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Work:
    """A folder for one case, kept when the case fails."""

    def __enter__(self):
        (ROOT / '.work').mkdir(exist_ok=True)
        self.path = pathlib.Path(tempfile.mkdtemp(prefix='e2e-', dir=ROOT / '.work'))
        return self.path

    def __exit__(self, failure, *_):
        if failure is None:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            print(f'# logs are in {self.path}')
