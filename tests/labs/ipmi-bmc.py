#!/usr/bin/env python3
"""A BMC on loopback that speaks IPMI 2.0, made of pyghmi's BMC (Apache-2.0), for the tests of the IPMI client.

  ipmi-bmc.py --kind shipped  pyghmi's ipmi.bmc as it is: answers suite 3 whatever is proposed, no privilege levels
  ipmi-bmc.py --kind suite17  the same with a session class that adds suite 17, privilege levels, error answers, a BMC
                              key, byte orders of the GUID, and faults (listed below)

The power state is a file that holds `on` or `off`; every power-off that arrives adds a line to FILE.log.
"""
import argparse, hashlib, hmac, os, struct, time, uuid
import pyghmi.ipmi.bmc as bmcmod
import pyghmi.ipmi.private.serversession as ss
from pyghmi.ipmi.private import constants

A = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
A.add_argument('--kind', choices=['shipped', 'suite17'], required=True)
A.add_argument('--addr', required=True); A.add_argument('--port', type=int, required=True)
A.add_argument('--guid', required=True); A.add_argument('--state', required=True)
A.add_argument('--user', action='append', required=True, metavar='NAME:LEVEL:PASSWORD')
A.add_argument('--kg', default=''); A.add_argument('--fault', default='')
A.add_argument('--guidorder', default='smbios', choices=['smbios', 'rfc', 'reversed'])
A.add_argument('--suites', default='17,3')
a = A.parse_args()
if not a.addr.startswith('127.'): A.error('loopback only')
users = {}
for u in a.user:
    n, p, pw = u.split(':', 2); users[n] = (int(p), pw)
faults = dict((f.split('=', 1) + [''])[:2] for f in a.fault.split(',') if f)
# FAULT names (comma separated, name or name=value):
#   open_status=HEX   refuse every Open Session with this status
#   open_none_conf    accept, but answer confidentiality 0 (client must refuse)
#   open_none_integ   accept, but answer integrity 0        (client must refuse)
#   open_suite3       answer 1/1/1 to a suite-17 proposal   (client must not continue it)
#   open_zero_sid     managed system session id 0
#   open_priv=N       report maximum privilege N in the Open Session Response
#   rakp2_bad | rakp4_bad            flip one bit of the code
#   rakp4_silent      never answer RAKP3
#   guid_zero | guid_ff | guid_short Get System GUID returns zeros / FFs / 8 bytes
#   guid_cc=HEX | status_cc=HEX | control_cc=HEX   completion code for that command
#   off_delay=SECS    acknowledge power down at once, state changes later
#   off_ignored       acknowledge power down, state never changes
#   dup               send every in-session answer twice
#   plain_answers     in-session answers unauthenticated and unencrypted
#   noconf_answers    in-session answers authenticated, not encrypted
#   old_seq           in-session answers repeat session sequence number 1
#   priv_deny         Set Session Privilege Level answers 0x81
#   busy=N            first N chassis commands answer 0xC0
SUITE = {3: (1, 1, 1), 17: (3, 4, 1)}
HASH = {1: (hashlib.sha1, 12), 3: (hashlib.sha256, 16)}
NEED = {(0, 1): 2, (0, 2): 3, (6, 0x37): 2}

def guid_bytes(g):
    return {'smbios': g.bytes_le, 'rfc': g.bytes, 'reversed': g.bytes[::-1]}[a.guidorder]

class Session(ss.ServerSession):
    def create_open_session_response(self, request):
        tag = request[0]; self.clientsessionid = bytes(request[4:8])
        want = (request[12] & 0x3f, request[20] & 0x3f, request[28] & 0x3f)
        self.askpriv = request[1] & 0xf
        allowed = [SUITE[int(s)] for s in a.suites.split(',')]
        st = int(faults['open_status'], 16) if 'open_status' in faults else (0 if want in allowed else 0x11)
        if st:
            self.dead = True
            return bytearray([tag, st, 0, 0]) + self.clientsessionid
        self.managedsessionid = b'\0\0\0\0' if 'open_zero_sid' in faults else os.urandom(4)
        got = list(want)
        if 'open_suite3' in faults: got = [1, 1, 1]
        if 'open_none_conf' in faults: got[2] = 0
        if 'open_none_integ' in faults: got[1] = 0
        self.hashf, self.trunc = HASH[want[0]]
        self.currhashlib, self.currhashlen = self.hashf, self.trunc
        self.privlevel = int(faults.get('open_priv', self.askpriv or 4))
        return (bytearray([tag, 0, self.privlevel, 0]) + self.clientsessionid + self.managedsessionid
                + bytearray([0, 0, 0, 8, got[0], 0, 0, 0, 1, 0, 0, 8, got[1], 0, 0, 0, 2, 0, 0, 8, got[2], 0, 0, 0]))

    def _err(self, kind, tag, st):
        self.send_payload(bytearray([tag, st, 0, 0]) + self.clientsessionid,
                          constants.payload_types[kind], retry=False)

    def _got_rakp1(self, data):
        data = bytearray(data); tag = data[0]
        if getattr(self, 'dead', False): return
        if bytes(data[4:8]) != bytes(self.managedsessionid): return self._err('rakp2', tag, 0x02)
        self.Rm = bytes(data[8:24]); self.rolem = data[24]; n = data[27]
        if n > 16 or len(data) < 28 + n: return self._err('rakp2', tag, 0x0c)
        self.username = bytes(data[28:28 + n]); want = self.rolem & 0xf
        ent = users.get(self.username.decode('utf-8', 'surrogateescape'))
        if ent is None: return self._err('rakp2', tag, 0x0d)
        if want > ent[0]: return self._err('rakp2', tag, 0x0a)
        self.maxpriv = min(want or 4, ent[0]); self.kuid = ent[1].encode('utf-8')
        self.kgk = a.kg.encode('utf-8') if a.kg else self.kuid
        self.uuiddata = guid_bytes(self.uuid); self.Rc = os.urandom(16)
        tail = bytes([self.rolem, n]) + self.username
        code = bytearray(hmac.new(self.kuid, self.clientsessionid + self.managedsessionid + self.Rm + self.Rc
                                  + self.uuiddata + tail, self.hashf).digest())
        if 'rakp2_bad' in faults: code[0] ^= 1
        self.send_payload(bytearray([tag, 0, 0, 0]) + self.clientsessionid + self.Rc + self.uuiddata + code,
                          constants.payload_types['rakp2'], retry=False)

    def _got_rakp3(self, data):
        data = bytearray(data); tag = data[0]
        if data[1] != 0 or not hasattr(self, 'Rc'): return
        if 'rakp4_silent' in faults: return
        tail = bytes([self.rolem, len(self.username)]) + self.username
        want = hmac.new(self.kuid, self.Rc + self.clientsessionid + tail, self.hashf).digest()
        if bytes(data[8:]) != want: return self._err('rakp4', tag, 0x0f)
        self.sik = hmac.new(self.kgk, self.Rm + self.Rc + tail, self.hashf).digest()
        self.k1 = hmac.new(self.sik, b'\x01' * 20, self.hashf).digest()
        self.k2 = hmac.new(self.sik, b'\x02' * 20, self.hashf).digest()
        self.aeskey = self.k2[:16]
        self.localsid = struct.unpack('<I', self.managedsessionid)[0]
        self.ipmicallback = self.handle_client_request
        self.clientpriv = 2 if self.maxpriv >= 2 else self.maxpriv
        icv = bytearray(hmac.new(self.sik, self.Rm + self.managedsessionid + self.uuiddata, self.hashf).digest()[:self.trunc])
        if 'rakp4_bad' in faults: icv[0] ^= 1
        self.send_payload(bytearray([tag, 0, 0, 0]) + self.clientsessionid + icv,
                          constants.payload_types['rakp4'], retry=False)
        self.confalgo, self.integrityalgo, self.sequencenumber = 'aes', 'x', 1
        self.sessionid = struct.unpack('<I', self.clientsessionid)[0]
        if 'plain_answers' in faults: self.confalgo = self.integrityalgo = 0
        if 'noconf_answers' in faults: self.confalgo = 0

    def send_payload(self, payload=(), payload_type=None, retry=True, **kw):
        n = 2 if 'dup' in faults and payload_type == 0 and self.integrityalgo else 1
        if 'old_seq' in faults and payload_type == 0 and self.sequencenumber > 1: self.sequencenumber = 1
        for _ in range(n):
            super().send_payload(payload, payload_type, retry=False, **kw)

    def handle_client_request(self, request):
        with open(a.state + '.requests', 'a') as f: f.write('%02x %02x\n' % (request['netfn'], request['command']))
        fn, cmd = request['netfn'], request['command']
        if (fn, cmd) == (6, 0x3b):
            p = request['data'][0] & 0xf
            if 'priv_deny' in faults or p > self.maxpriv: return self._send_ipmi_net_payload(code=0x81)
            if p: self.clientpriv = p
            return self._send_ipmi_net_payload(code=0, data=[self.clientpriv])
        if self.clientpriv < NEED.get((fn, cmd), 0): return self._send_ipmi_net_payload(code=0xd4)
        if fn == 0 and int(faults.get('busy', '0')) > 0:
            faults['busy'] = str(int(faults['busy']) - 1); return self._send_ipmi_net_payload(code=0xc0)
        for key, f in ((('guid_cc'), (6, 0x37)), ('status_cc', (0, 1)), ('control_cc', (0, 2))):
            if (fn, cmd) == f and key in faults: return self._send_ipmi_net_payload(code=int(faults[key], 16))
        if (fn, cmd) == (6, 0x37):
            d = guid_bytes(self.uuid)
            if 'guid_zero' in faults: d = b'\0' * 16
            if 'guid_ff' in faults: d = b'\xff' * 16
            if 'guid_short' in faults: d = d[:8]
            return self.send_ipmi_response(data=d)
        super().handle_client_request(request)

class Bmc(bmcmod.Bmc):
    pending = None
    def get_system_guid(self): return self.uuid
    def _tick(self):
        if self.pending and time.monotonic() >= self.pending:
            self.pending = None; self._set('off')
    def _set(self, v):
        with open(a.state + '.new', 'w') as f: f.write(v + '\n')
        os.replace(a.state + '.new', a.state)
    def get_power_state(self):
        self._tick()
        with open(a.state) as f: return f.read().strip()
    def power_off(self):
        with open(a.state + '.log', 'a') as f: f.write('off %.6f\n' % time.time())
        if 'off_ignored' in faults: return
        if 'off_delay' in faults: self.pending = time.monotonic() + float(faults['off_delay']); return
        self._set('off')
    def power_on(self): self._set('on')
    def power_cycle(self): return 0xd5
    def power_reset(self): return 0xd5
    def power_shutdown(self): return 0xd5

if a.kind == 'suite17': ss.ServerSession = Session
b = Bmc({n: v[1] for n, v in users.items()}, port=a.port, bmcuuid=uuid.UUID(a.guid), address=a.addr)
if a.kg and a.kind == 'shipped': b.set_kg(a.kg)
b.listen(timeout=1)
