#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Sends management datagrams as no connection manager does, straight to a netdev.

  mad.py IF SRC DST DST-MAC headers             datagrams whose headers are wrong; prints how many for which counter
  mad.py IF SRC DST DST-MAC fields PORT         requests to a listener with every byte of them wrong in turn, and every kind of message;
                                                prints how many, and how many of them have the right MAD header, so that the CM gets them
  mad.py IF SRC DST DST-MAC flood PORT COUNT    as many requests, each of a connection of its own
  mad.py IF SRC DST DST-MAC reply               waits for a request, answers it wrongly (for another connection, from its peer's
                                                address and from others; for itself, from other addresses), prints how many of
                                                each kind, and rejects it then
  mad.py IF SRC DST DST-MAC gone STEP PORT      one end of a connection that stops answering at a step of the handshake; prints what
                                                it got and sent. It answers to a client: "request" does not answer its REQ, "mra"
                                                answers it with an MRA alone, "reply" with a REP. It asks the listener at PORT:
                                                "asker" sends a REQ, "connected" also an RTU for the REP
"""
import random
import socket
import struct
import sys
import time
from zlib import crc32

ROCE_PORT = 4791
UD_SEND, RC_SEND = 0x64, 0x04
GSI_QKEY = 0x80010000
CM_CLASS = 7
MESSAGES = {'req': 0x10, 'mra': 0x11, 'rej': 0x12, 'rep': 0x13, 'rtu': 0x14, 'dreq': 0x15, 'drep': 0x16, 'sidr_req': 0x17,
            'sidr_rep': 0x18, 'lap': 0x19, 'apr': 0x1a}
PORT_SPACE_TCP = 0x0106
CONSUMER_REJECT = 28
MRA_SERVICE_TIMEOUT = 18        # of the message with which it answers a REQ: 4.096 us << 18 = 1.1 s
MAD_HEADER = 24
ETHERTYPE_IP = 0x0800


class Wire:
    """A netdev and the two addresses of what is sent over it."""

    def __init__(self, netdev, src, dst, dst_mac):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_IP))
        self.socket.bind((netdev, 0))
        self.src, self.dst = src, dst
        self.ether = bytes.fromhex(dst_mac.replace(':', '')) + self.socket.getsockname()[4] + struct.pack('!H', ETHERTYPE_IP)
        self.psn = 0

    def send(self, mad, src=None, qpn=1, qkey=GSI_QKEY, pkey=0xffff, opcode=UD_SEND, version=0, spoil=0):
        self.psn += 1
        pad = -len(mad) % 4
        bth = struct.pack('!BBHII', opcode, 0x40 | pad << 4 | version, pkey, qpn, self.psn & 0xffffff)
        body = bth + struct.pack('!II', qkey, 1) + mad + bytes(pad)
        udp_length = 8 + len(body) + 4
        address = [socket.inet_aton(a) for a in (src or self.src, self.dst)]
        ip = struct.pack('!BBHHHBBH', 0x45, 0, 20 + udp_length, 0, 0x4000, 64, 17, 0) + b''.join(address)
        udp = struct.pack('!HHHH', 0xc001, ROCE_PORT, udp_length, 0)
        # Annex A17.3.3: fields that routers change count as ones.
        masked = bytearray(b'\xff' * 8 + ip + udp + body)
        for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 28 + 6, 28 + 7, 36 + 4):
            masked[at] = 0xff
        icrc = struct.pack('<I', crc32(bytes(masked)) ^ spoil)
        total = sum(struct.unpack('!10H', ip))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        ip = ip[:10] + struct.pack('!H', ~total & 0xffff) + ip[12:]
        self.socket.send(self.ether + ip + udp + body + icrc)

    def receive(self, seconds):
        """The next management datagram to QP 1 between the two addresses; None: there is none."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                frame = self.socket.recv(4096)
            except TimeoutError:
                return None
            if frame[23] == 17 and frame[26:34] == socket.inet_aton(self.dst) + socket.inet_aton(self.src) and frame[36:38] == struct.pack('!H', ROCE_PORT) and \
                    len(frame) >= 42 + 20 + 256 and frame[42] == UD_SEND and frame[47:50] == b'\x00\x00\x01':
                return frame[62:62 + 256]
        return None


def message(kind, data, tid=1):
    header = struct.pack('!BBBBHHQHHI', 1, CM_CLASS, 2, 3, 0, 0, tid, MESSAGES[kind], 0, 0)
    return header + data + bytes(232 - len(data))


def request(wire, port, number):
    """Of connection @number, as rdma_cm makes it (IBTA 12.6.5, annex A11)."""
    gids = [bytes(10) + b'\xff\xff' + socket.inet_aton(a) for a in (wire.src, wire.dst)]
    data = bytearray(232)
    struct.pack_into('!I', data, 0, number)                                     # local communication id
    struct.pack_into('!Q', data, 8, PORT_SPACE_TCP << 16 | port)                # service id
    struct.pack_into('!Q', data, 16, 0x0200aafffe000001)                        # GUID
    struct.pack_into('!I', data, 32, (0x1000 + number % 0x8000) << 8 | 1)       # QP number, responder resources
    struct.pack_into('!I', data, 36, 1)                                         # initiator depth
    struct.pack_into('!I', data, 40, 20 << 3)                                   # remote CM response timeout, RC
    struct.pack_into('!I', data, 44, 20 << 3 | 7)                               # PSN, CM response timeout, retries
    struct.pack_into('!HBB', data, 48, 0xffff, 3 << 4 | 7, 15 << 4)             # P_Key, MTU, RNR retries, CM retries
    struct.pack_into('!HH', data, 52, 0xffff, 0xffff)
    data[56:72], data[72:88] = gids
    data[93:96] = bytes((64, 0, 18 << 3))                                       # hop limit, SL, ACK timeout
    private = struct.pack('!BBH', 0, 4 << 4, 12345) + bytes(12) + socket.inet_aton(wire.src) + bytes(12) + socket.inet_aton(wire.dst)
    data[140:140 + len(private)] = private
    return message('req', bytes(data), tid=number)


def headers(wire):
    mad = message('drep', struct.pack('!II', 1, 2))
    for key in range(20):
        wire.send(mad, qkey=GSI_QKEY ^ 1 << key)
    for length in (0, 1, 4, 24, 128, 252, 255, 257, 260, 512, 1024):
        wire.send((mad * 4)[:length])
    for qpn in (0, 0xffff00, 0xfffffe):
        wire.send(mad, qpn=qpn)
    for bit in range(32):
        wire.send(mad, spoil=1 << bit)
    for pkey in (0, 1, 0x1234, 0x8000, 0x8001):
        wire.send(mad, pkey=pkey)
    for opcode in (RC_SEND, 0x0a, 0x24, 0x2a):         # SEND and WRITE of RC and UC
        wire.send(mad, opcode=opcode)
    for version in (1, 7, 15):
        wire.send(mad, version=version)
    print('rx_bad_qkey 20\nrx_bad_length 11\nrx_no_qp 3\nrx_bad_icrc 32\nrx_bad_pkey 5\nrx_bad_opcode 4\nrx_bad_header 3')


def fields(wire, port):
    chance = random.Random(1)
    number = 0x100000
    count = messages = 0
    for at in range(256):
        for value in (0x00, 0x7f, 0xff):
            number += 1
            mad = bytearray(request(wire, port, number))
            mad[at] = value if mad[at] != value else value ^ 0x55
            wire.send(bytes(mad))
            count += 1
            messages += at >= MAD_HEADER
            time.sleep(0.0005)          # the receive queue of QP 1 holds 512
    for kind in MESSAGES:
        for _ in range(60):
            wire.send(message(kind, chance.randbytes(232), chance.getrandbits(64)))
            count += 1
            messages += 1
            time.sleep(0.0005)
    for _ in range(300):
        wire.send(chance.randbytes(256))
        count += 1
        time.sleep(0.0005)
    print('sent', count)
    print('messages', messages)


def flood(wire, port, count):
    for number in range(1, count + 1):
        wire.send(request(wire, port, number))
    print('sent', count)


def reply(wire):
    print('ready', flush=True)
    mad = wire.receive(20)
    if mad is None or struct.unpack('!H', mad[16:18])[0] != MESSAGES['req']:
        sys.exit('no request')
    tid, = struct.unpack('!Q', mad[8:16])
    theirs, = struct.unpack('!I', mad[24:28])
    other = wire.src.rsplit('.', 1)[0] + '.%d'
    count = dict.fromkeys(('rep', 'rtu', 'rej', 'dreq'), 0)

    def send(kind, data, tid, src):
        wire.send(message(kind, data, tid), src=src)
        count[kind] += 1

    for n in range(20):
        wrong, elsewhere = theirs ^ 1 << n, other % (100 + n)
        # of no connection, from the peer and from others
        for src in (None, elsewhere):
            send('rep', struct.pack('!III', 77, wrong, 0) + struct.pack('!III', 0x123 << 8, 0, 1), tid ^ 1 << n, src)
            send('rtu', struct.pack('!II', 77, wrong), tid, src)
            send('rej', struct.pack('!IIBBH', 77, wrong, 0, 0, CONSUMER_REJECT), tid, src)
            send('dreq', struct.pack('!III', 77, wrong, 0x12300), tid, src)
        # Of this connection, from others. The kernel's CM knows a REP and a REJ by the connection's number alone, and believes them.
        send('rtu', struct.pack('!II', 77, theirs), tid, elsewhere)
        send('dreq', struct.pack('!III', 77, theirs, 0x12300), tid, elsewhere)
    for kind, n in count.items():
        print(kind, n)
    wire.send(message('rej', struct.pack('!IIBBH', 0, theirs, 0, 0, CONSUMER_REJECT), tid))


def await_message(wire, kind):
    """The next message of this kind; its transaction and the peer's communication id."""
    mad = wire.receive(20)
    while mad is not None and struct.unpack('!H', mad[16:18])[0] != MESSAGES[kind]:
        mad = wire.receive(20)
    if mad is None:
        sys.exit('no ' + kind)
    print('got', kind, flush=True)
    return struct.unpack('!Q', mad[8:16])[0], struct.unpack('!I', mad[24:28])[0]


def gone(wire, step, port):
    ours = 0x200000 + port              # the kernel knows a connection by this number and the GUID, which they share

    def send(kind, data, tid):
        wire.send(message(kind, data, tid))
        print('sent', kind, flush=True)

    print('ready', flush=True)
    if step in ('request', 'mra', 'reply'):
        tid, theirs = await_message(wire, 'req')
        if step == 'mra':
            send('mra', struct.pack('!IIBB', ours, theirs, 0, MRA_SERVICE_TIMEOUT << 3), tid)
        elif step == 'reply':
            send('rep', struct.pack('!III', ours, theirs, 0) + struct.pack('!III', 0x123 << 8, 0, 1 << 8), tid)
            await_message(wire, 'rtu')
            await_message(wire, 'dreq')
    else:
        wire.send(request(wire, port, ours))
        print('sent req', flush=True)
        tid, theirs = await_message(wire, 'rep')
        if step == 'connected':
            send('rtu', struct.pack('!II', ours, theirs), tid)
            await_message(wire, 'dreq')


def main():
    wire, action, more = Wire(*sys.argv[1:5]), sys.argv[5], [int(a) if a.isdigit() else a for a in sys.argv[6:]]
    {'headers': headers, 'fields': fields, 'flood': flood, 'reply': reply, 'gone': gone}[action](wire, *more)


if __name__ == '__main__':
    main()
