# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""RoCEv2 packets made and checked by scapy's RoCE layer, independently of the project's own code.

scapy 2.5 knows BTH, AETH and the ICRC over IPv4. RETH, ImmDt, IETH, the opcodes of SEND with invalidate and the ICRC over
IPv6 are added here from the IBTA specification (volume 1, chapter 9; annex A17.3.3); over IPv4 both ICRCs must agree (see selftest.py).
"""
import struct
from zlib import crc32

from scapy.contrib.roce import BTH, _bth_opcodes
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import PcapReader, PcapWriter

PORT = 4791
NAMES = {**_bth_opcodes, 0x16: 'RC_SEND_LAST_WITH_INVALIDATE', 0x17: 'RC_SEND_ONLY_WITH_INVALIDATE'}     # table 38
OPCODES = {name: number for number, name in NAMES.items()}

ACK, NAK_SEQ, NAK_INVALID, NAK_ACCESS, NAK_OPERATION = 0x1f, 0x60, 0x61, 0x62, 0x63
RNR = 0x20  # + timer


def reth(address, rkey, length):
    return struct.pack('!QII', address, rkey, length)


def immdt(value):
    return struct.pack('!I', value)


def ieth(rkey):
    return struct.pack('!I', rkey)


def aeth(syndrome, msn):
    return struct.pack('!I', syndrome << 24 | msn & 0xffffff)


def header_length(opcode):
    """Of the extended headers between BTH and payload, for RC."""
    name = NAMES.get(opcode, '')
    length = 0
    if name in ('RC_RDMA_WRITE_FIRST', 'RC_RDMA_WRITE_ONLY', 'RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE', 'RC_RDMA_READ_REQUEST'):
        length += 16
    if name.endswith(('_WITH_IMMEDIATE', '_WITH_INVALIDATE')):
        length += 4
    if name in ('RC_ACKNOWLEDGE', 'RC_RDMA_READ_RESPONSE_FIRST', 'RC_RDMA_READ_RESPONSE_LAST',
                'RC_RDMA_READ_RESPONSE_ONLY'):
        length += 4
    return length


def own_icrc(packet):
    """By the rule of annex A17.3.3: fields that routers change count as ones."""
    data = bytearray(bytes(packet))
    if IP in packet:
        data[1] = data[8] = 0xff                    # TOS, TTL
        data[10:12] = b'\xff\xff'                   # header checksum
        udp = 4 * (data[0] & 15)
    else:
        data[0] |= 0x0f                             # traffic class, flow label
        data[1:4] = b'\xff\xff\xff'
        data[7] = 0xff                              # hop limit
        udp = 40
    data[udp + 6:udp + 8] = b'\xff\xff'             # checksum
    data[udp + 12] = 0xff                           # BTH: FECN, BECN and the six bits beside them
    return struct.pack('<I', crc32(b'\xff' * 8 + bytes(data[:-4])))


class Flow:
    """Makes frames of one direction of one connection."""

    def __init__(self, src, dst, src_mac, dst_mac, qpn, sport=0xc123):
        self.src, self.dst, self.src_mac, self.dst_mac, self.qpn, self.sport = src, dst, src_mac, dst_mac, qpn, sport

    def frame(self, opcode, psn, headers=b'', payload=b'', ackreq=0, solicited=0, qpn=None, spoil_icrc=0, **fields):
        pad = -len(payload) % 4
        bth = BTH(opcode=OPCODES.get(opcode, opcode), dqpn=self.qpn if qpn is None else qpn, psn=psn & 0xffffff,
                  ackreq=ackreq, solicited=solicited, padcount=pad, migreq=1, **fields)
        body = headers + payload + bytes(pad)
        if ':' in self.src:
            below = IPv6(src=self.src, dst=self.dst, hlim=64)
        else:
            below = IP(src=self.src, dst=self.dst, ttl=64, flags='DF')
        below = below / UDP(sport=self.sport, dport=PORT, chksum=0 if IP in below else None)
        if IP in below and not spoil_icrc:
            packet = below / bth / Raw(body) if body else below / bth   # scapy's ICRC
        else:
            bth.icrc = 0
            packet = below / bth / Raw(body) if body else below / bth
            built = bytearray(bytes(packet))
            # the ICRC must be there before the UDP checksum is made, so it is put into the built packet
            built[-4:] = own_icrc(type(below)(bytes(built)))
            if spoil_icrc:
                built[-1] ^= spoil_icrc
            if IPv6 in below:
                plain = IPv6(bytes(built))
                rebuilt = IPv6(src=self.src, dst=self.dst, hlim=64) / UDP(sport=self.sport, dport=PORT) / \
                    Raw(bytes(plain[UDP])[8:])
                built = bytes(rebuilt)
            packet = type(below)(bytes(built))
        return bytes(Ether(src=self.src_mac, dst=self.dst_mac) / packet)


class Parsed:
    """A received frame, taken apart; `problems` lists what is wrong with it."""

    def __init__(self, frame):
        self.problems = []
        ether = Ether(frame)
        self.ether = ether
        self.is_roce = UDP in ether and ether[UDP].dport == PORT
        if not self.is_roce:
            return
        self.ip = ether[IP] if IP in ether else ether[IPv6]
        self.udp = ether[UDP]
        trimmed = bytes(self.ip)[:self.ip.len if IP in ether else self.ip.plen + 40]  # without Ethernet padding
        self.raw = trimmed[len(trimmed) - self.udp.len + 8:]
        if len(self.raw) < 16:
            self.problems.append('shorter than a BTH and an ICRC')
            self.is_roce = False
            return
        fields = struct.unpack('!BBHII', self.raw[:12])
        self.opcode, flags, self.pkey, qpn, apsn = fields
        self.solicited, self.migreq, self.pad, self.version = flags >> 7, flags >> 6 & 1, flags >> 4 & 3, flags & 15
        self.qpn, self.psn, self.ackreq, self.becn = qpn & 0xffffff, apsn & 0xffffff, apsn >> 31, qpn >> 30 & 1
        self.name = NAMES.get(self.opcode, 'opcode 0x%02x' % self.opcode)
        extended = header_length(self.opcode)
        self.headers = self.raw[12:12 + extended]
        self.body = self.raw[12 + extended:len(self.raw) - 4]
        self.payload = self.body[:len(self.body) - self.pad]
        self._check(trimmed, qpn >> 24, apsn >> 24 & 0x7f)

    def _check(self, trimmed, reserved_qpn, reserved_psn):
        problem = self.problems.append
        packet = (IP if IP in self.ether else IPv6)(trimmed)
        if own_icrc(packet) != self.raw[-4:]:
            problem('ICRC %s, should be %s' % (self.raw[-4:].hex(), own_icrc(packet).hex()))
        if IP in packet:
            # scapy's own opinion
            scapys = packet[BTH].compute_icrc(None)
            if scapys != self.raw[-4:]:
                problem('ICRC %s, scapy says %s' % (self.raw[-4:].hex(), scapys.hex()))
        if self.version:
            problem('transport version %d' % self.version)
        if reserved_qpn & 0x3f or reserved_psn:
            problem('reserved bits set')
        if self.name.startswith('opcode'):
            problem('unknown ' + self.name)
        if len(self.body) < self.pad or len(self.body) % 4:
            problem('%d bytes of payload with %d of padding' % (len(self.body), self.pad))
        elif self.pad and any(self.body[len(self.payload):]):
            problem('padding is not zero')
        if len(self.headers) < header_length(self.opcode):
            problem('extended headers are cut')
        if self.name in ('RC_ACKNOWLEDGE', 'RC_RDMA_READ_REQUEST') and self.body:
            problem('payload in ' + self.name)
        if self.udp.chksum and IP in packet:
            checked = IP(trimmed)
            del checked[UDP].chksum
            if IP(bytes(checked))[UDP].chksum != self.udp.chksum:
                problem('UDP checksum')

    def reth(self):
        return struct.unpack('!QII', self.headers[:16])

    def imm(self):
        return struct.unpack('!I', self.headers[-4:])[0]

    def ieth(self):
        return struct.unpack('!I', self.headers[-4:])[0]

    def aeth(self):
        value = struct.unpack('!I', self.headers[-4:])[0]
        return value >> 24, value & 0xffffff

    def __str__(self):
        return '%s qpn %d psn %d payload %d' % (self.name, self.qpn, self.psn, len(self.payload))


def read_pcap(path):
    with PcapReader(path) as reader:
        for packet in reader:
            yield bytes(packet)


def write_pcap(path, frames):
    with PcapWriter(path, linktype=1, sync=True) as writer:
        for frame in frames:
            writer.write(Ether(frame))
