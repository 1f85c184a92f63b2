#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""scapy as the peer of the device model: packets of each opcode both ways, ICRC and all.

    model_test.py SNIC_ORACLE [unittest arguments]
"""
import ipaddress
import os
import subprocess
import sys
import tempfile
import unittest

import roce
import tshark

MODEL = None
MTU = 1024
HALF = 1 << 20  # receive buffers in the lower half of the memory, RDMA targets in the upper one


def pattern(length, seed):
    return bytes((i * 7 + seed) % 256 for i in range(length))


class Model:
    """One snic_oracle process; everything it sent is kept for tshark."""

    def __init__(self, version):
        self.process = subprocess.Popen([MODEL, str(version), str(MTU)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.about, self.traffic = {}, []
        while (line := self.process.stdout.readline().split()) != ['ready']:
            self.about[line[0]] = line[1]
        for name in ('own_qpn', 'peer_qpn', 'send_psn', 'recv_psn', 'sport', 'ttl', 'tos', 'iova', 'rkey', 'fast_rkey'):
            self.about[name] = int(self.about[name])

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(10)
        self.process.stdout.close()
        return code

    def say(self, command):
        """Frames, completions and memory that a command led to."""
        self.process.stdin.write(command + '\n')
        self.process.stdin.flush()
        frames, completions, memory = [], [], None
        while True:
            line = self.process.stdout.readline().split()
            if not line:
                raise RuntimeError('the model ended at: ' + command[:100])
            if line[0] == 'done':
                self.traffic += frames
                return frames, completions, memory
            if line[0] == 'frame':
                frames.append(bytes.fromhex(line[1]))
            elif line[0] == 'wc':
                completions.append([line[1]] + [int(field) for field in line[2:]])
            elif line[0] == 'memory':
                memory = bytes.fromhex(line[1] if len(line) > 1 else '')


def address(hexadecimal):
    whole = ipaddress.IPv6Address(bytes.fromhex(hexadecimal))
    return str(whole.ipv4_mapped or whole)


def mac(hexadecimal):
    return ':'.join(hexadecimal[i:i + 2] for i in range(0, 12, 2))


class PeerTest(unittest.TestCase):
    version = 4

    def setUp(self):
        self.model = Model(self.version)
        about = self.model.about
        self.flow = roce.Flow(address(about['peer_ip']), address(about['own_ip']), mac(about['peer_mac']),
                              mac(about['own_mac']), about['own_qpn'])
        self.psn, self.expected_psn, self.msn = about['recv_psn'], about['send_psn'], 0

    def tearDown(self):
        self.assertEqual(self.model.close(), 0, 'the harness complained')
        self.check_with_tshark()

    def check_with_tshark(self):
        if not self.model.traffic:
            return
        with tempfile.NamedTemporaryFile(suffix='.pcap') as file:
            roce.write_pcap(file.name, self.model.traffic)
            lines = tshark.decode(file.name)
        self.assertEqual(len(lines), len(self.model.traffic))
        self.assertEqual([line.text for line in lines if line.malformed], [])
        sent = [roce.Parsed(frame) for frame in self.model.traffic]
        self.assertEqual([line.ieth for line in lines],
                         [frame.ieth() if frame.name.endswith('INVALIDATE') else None for frame in sent])

    # ---- the model receives

    def give(self, opcode, headers=b'', payload=b'', **fields):
        frame = self.flow.frame(opcode, self.psn, headers, payload, **fields)
        self.psn = self.psn + 1 & 0xffffff
        self.model.traffic.append(frame)
        return self.give_frame(frame)

    def give_frame(self, frame):
        frames, completions, _ = self.model.say('frame ' + frame.hex())
        return [self.parse(one) for one in frames], completions

    def parse(self, frame):
        parsed = roce.Parsed(frame)
        about = self.model.about
        self.assertTrue(parsed.is_roce)
        self.assertEqual(parsed.problems, [], str(parsed))
        self.assertEqual(parsed.ether.src, mac(about['own_mac']))
        self.assertEqual(parsed.ether.dst, mac(about['peer_mac']))
        self.assertEqual((parsed.ip.src, parsed.ip.dst), (self.flow.dst, self.flow.src))
        self.assertEqual(parsed.udp.sport, about['sport'])
        self.assertEqual(parsed.ip.ttl if self.version == 4 else parsed.ip.hlim, about['ttl'])
        self.assertEqual(parsed.ip.tos if self.version == 4 else parsed.ip.tc, about['tos'])
        self.assertEqual(parsed.qpn, about['peer_qpn'])
        self.assertEqual(parsed.pkey, 0xffff)
        self.assertEqual(parsed.migreq, 1)
        return parsed

    def expect_ack(self, frames, syndrome=None, psn=None):
        self.assertEqual([frame.name for frame in frames], ['RC_ACKNOWLEDGE'])
        got, msn = frames[0].aeth()
        if syndrome is None:
            self.assertEqual(got & 0x60, 0, 'an acknowledgement')
        else:
            self.assertEqual(got, syndrome)
        self.assertEqual(frames[0].psn, (self.psn - 1 if psn is None else psn) & 0xffffff)
        self.assertEqual(msn, self.msn)

    def peek(self, offset, length):
        return self.model.say('peek %d %d' % (offset, length))[2]

    def in_packets(self, data):
        return [data[i:i + MTU] for i in range(0, len(data), MTU)] or [b'']

    def send_message(self, kind, data, first_headers=b'', imm=None, inv=None):
        """A SEND or RDMA WRITE cut into packets; what the last one led to."""
        parts = self.in_packets(data)
        for i, part in enumerate(parts):
            first, last = i == 0, i == len(parts) - 1
            place = 'ONLY' if first and last else 'FIRST' if first else 'LAST' if last else 'MIDDLE'
            ending, last_headers = '', b''
            if last and imm is not None:
                ending, last_headers = '_WITH_IMMEDIATE', roce.immdt(imm)
            if last and inv is not None:
                ending, last_headers = '_WITH_INVALIDATE', roce.ieth(inv)
            result = self.give('RC_%s_%s%s' % (kind, place, ending), (first_headers if first else b'') + last_headers, part,
                               ackreq=int(last), solicited=0)
            if not last:
                self.assertEqual(result, ([], []), 'nothing is due before the end')
        self.msn += 1
        return result

    def test_sends_are_received(self):
        for length in (0, 1, 2, 3, 4, 5, MTU - 1, MTU, MTU + 1, 3 * MTU, 3 * MTU + 2):
            for imm in (None, 0xcafe0000 + length):
                with self.subTest(length=length, imm=imm):
                    data = pattern(length, length & 0xff)
                    self.model.say('fill 4096 %d 9' % (length + 8))
                    self.model.say('recv 4096 %d' % max(length, 1))
                    frames, completions = self.send_message('SEND', data, imm=imm)
                    self.expect_ack(frames)
                    self.assertEqual(len(completions), 1)
                    self.assertEqual(completions[0][0], 'recv')
                    self.assertEqual(completions[0][2:], [0, length, imm or 0])
                    self.assertEqual(self.peek(4096, length + 8)[:length], data)
                    self.assertEqual(self.peek(4096 + length, 8), pattern(length + 8, 9)[length:], 'behind the data')

    def test_a_send_invalidates_a_key(self):
        for length in (0, 5, MTU, 2 * MTU + 3):
            with self.subTest(length=length):
                self.tearDown()
                self.setUp()
                key = self.model.about['fast_rkey']
                headers = roce.reth(self.model.about['iova'] + HALF, key, 4)
                frames, _ = self.send_message('RDMA_WRITE', b'good', headers)
                self.expect_ack(frames)
                self.model.say('recv 4096 %d' % max(length, 1))
                frames, completions = self.send_message('SEND', pattern(length, 3), inv=key)
                self.expect_ack(frames)
                self.assertEqual([wc[2:] for wc in completions], [[0, length, 0, key]])
                self.assertEqual(self.peek(4096, length), pattern(length, 3))
                frames, _ = self.give('RC_RDMA_WRITE_ONLY', headers, b'late', ackreq=1)
                self.expect_ack(frames, roce.NAK_ACCESS)
                self.assertEqual(self.peek(HALF, 4), b'good')

    def test_writes_land(self):
        about = self.model.about
        for length in (0, 1, 3, 4, MTU - 1, MTU, MTU + 1, 2 * MTU + 5):
            for imm in (None, 0x11220000 + length):
                with self.subTest(length=length, imm=imm):
                    data = pattern(length, 77)
                    if imm is not None:
                        self.model.say('recv 0 0')
                    headers = roce.reth(about['iova'] + HALF + 3, about['rkey'], length)
                    frames, completions = self.send_message('RDMA_WRITE', data, headers, imm)
                    self.expect_ack(frames)
                    self.assertEqual([wc[2:] for wc in completions], [] if imm is None else [[0, length, imm]])
                    self.assertEqual(self.peek(HALF + 3, length), data)

    def test_reads_are_answered(self):
        about = self.model.about
        for length in (0, 1, 4, MTU, MTU + 1, 3 * MTU + 7):
            with self.subTest(length=length):
                self.model.say('fill %d %d %d' % (HALF + 11, length, length & 0xff))
                first = self.psn
                headers = roce.reth(about['iova'] + HALF + 11, about['rkey'], length)
                frames, _ = self.give('RC_RDMA_READ_REQUEST', headers, ackreq=1)
                self.msn += 1
                count = max(1, -(-length // MTU))
                self.psn = (first + count) & 0xffffff
                places = ['ONLY'] if count == 1 else ['FIRST'] + ['MIDDLE'] * (count - 2) + ['LAST']
                self.assertEqual([f.name for f in frames], ['RC_RDMA_READ_RESPONSE_' + place for place in places])
                self.assertEqual([f.psn for f in frames], [first + i & 0xffffff for i in range(count)])
                self.assertEqual(b''.join(f.payload for f in frames), pattern(length, length & 0xff))
                for frame in (frames[0], frames[-1]):
                    self.assertEqual(frame.aeth()[1], self.msn)

    def test_duplicates_are_acknowledged_and_not_executed(self):
        self.model.say('recv 4096 64')
        self.model.say('recv 8192 64')
        frame = self.flow.frame('RC_SEND_ONLY', self.psn, payload=b'once', ackreq=1)
        self.psn += 1
        self.msn = 1
        frames, completions = self.give_frame(frame)
        self.expect_ack(frames)
        self.assertEqual(len(completions), 1)
        frames, completions = self.give_frame(frame)
        self.expect_ack(frames)
        self.assertEqual(completions, [])
        self.assertNotEqual(self.peek(8192, 4), b'once')

    def test_a_marked_packet_is_notified(self):
        """Congestion experienced (RFC 3168): a CNP, then the answer; and a CNP of the peer's is taken."""
        self.model.say('recv 4096 64')
        marked = roce.Ether(self.flow.frame('RC_SEND_ONLY', self.psn, payload=b'mark', ackreq=1))
        if self.version == 4:
            marked[roce.IP].tos = 3
            del marked[roce.IP].chksum
        else:
            marked[roce.IPv6].tc = 3
        self.psn, self.msn = self.psn + 1, 1
        frames, completions = self.give_frame(bytes(marked))
        self.assertEqual(len(completions), 1)
        self.assertEqual((frames[0].name, frames[0].psn, len(frames)), ('CNP', 0, 2))
        self.assertEqual(frames[0].becn, 1)
        self.expect_ack(frames[1:])
        self.assertEqual(self.give_frame(self.flow.frame('CNP', 0, payload=bytes(16), becn=1)), ([], []))

    def test_a_gap_is_refused_once(self):
        self.model.say('recv 4096 64')
        missing, self.psn = self.psn, self.psn + 3
        frames, _ = self.give('RC_SEND_ONLY', payload=b'late', ackreq=1)
        self.expect_ack(frames, roce.NAK_SEQ, missing)
        self.assertEqual(self.give('RC_SEND_ONLY', payload=b'later', ackreq=1), ([], []), 'one NAK is enough')
        self.psn, self.msn = missing, 1
        frames, completions = self.give('RC_SEND_ONLY', payload=b'good', ackreq=1)
        self.expect_ack(frames)
        self.assertEqual(len(completions), 1)

    def test_no_receive_buffer_means_rnr(self):
        frame = self.flow.frame('RC_SEND_ONLY', self.psn, payload=b'wait', ackreq=1)
        frames, _ = self.give_frame(frame)
        self.expect_ack(frames, roce.RNR | 14, self.psn)
        self.model.say('recv 4096 64')
        self.psn, self.msn = self.psn + 1, 1
        frames, completions = self.give_frame(frame)
        self.expect_ack(frames)
        self.assertEqual(completions[0][2:4], [0, 4])

    def test_wrong_keys_and_bounds_are_refused(self):
        about = self.model.about
        size = int(about['memory'])
        base, good = about['iova'], about['rkey']
        for name, start, key, length, nak in (('key', base, good ^ 1, 16, roce.NAK_ACCESS),
                                              ('start', base - 1, good, 16, roce.NAK_ACCESS),
                                              ('end', base + size - 15, good, 16, roce.NAK_ACCESS),
                                              ('wrap', (1 << 64) - 8, good, 16, roce.NAK_ACCESS),
                                              ('length', base, good, 0x7fffffff, roce.NAK_ACCESS),
                                              ('longer than any message', base, good, 0xffffffff, roce.NAK_INVALID)):
            for opcode in ('RC_RDMA_WRITE_ONLY', 'RC_RDMA_READ_REQUEST'):
                with self.subTest(name=name, opcode=opcode):
                    self.tearDown()
                    self.setUp()
                    writes = opcode.endswith('ONLY')
                    data = pattern(16, 5) if writes and length == 16 else b'' if not writes else pattern(MTU, 5)
                    if writes and length != 16:
                        opcode = 'RC_RDMA_WRITE_FIRST'
                    frames, _ = self.give(opcode, roce.reth(start, key, length), data, ackreq=1)
                    self.expect_ack(frames, nak)

    def test_refuses_a_write_whose_length_is_not_its_payload(self):
        about = self.model.about
        frames, _ = self.give('RC_RDMA_WRITE_ONLY', roce.reth(about['iova'], about['rkey'], 100), pattern(60, 1), ackreq=1)
        self.expect_ack(frames, roce.NAK_INVALID)

    def test_drops_what_is_not_right(self):
        """No answer, no effect, and the connection lives on."""
        flow, psn = self.flow, self.psn
        self.model.say('recv 4096 64')
        good = flow.frame('RC_SEND_ONLY', psn, payload=b'good', ackreq=1)
        bad = {
            'ICRC': flow.frame('RC_SEND_ONLY', psn, payload=b'bad!', ackreq=1, spoil_icrc=1),
            'unknown queue pair': flow.frame('RC_SEND_ONLY', psn, payload=b'bad!', ackreq=1, qpn=0x7ffff1),
            'queue pair 0': flow.frame('RC_SEND_ONLY', psn, payload=b'bad!', ackreq=1, qpn=0),
            'transport version': flow.frame('RC_SEND_ONLY', psn, payload=b'bad!', ackreq=1, version=3),
            'partition key': flow.frame('RC_SEND_ONLY', psn, payload=b'bad!', ackreq=1, pkey=0x1234),
            'unconnected transport': flow.frame('UD_SEND_ONLY', psn, payload=b'bad!bad!', ackreq=1),
            'opcode': flow.frame(0x1f, psn, payload=b'bad!', ackreq=1),
            'ACK without AETH': flow.frame('RC_ACKNOWLEDGE', psn),
            'ACK of nothing sent': flow.frame('RC_ACKNOWLEDGE', 0x1234, roce.aeth(roce.ACK, 1)),
            'READ response nobody asked for': flow.frame('RC_RDMA_READ_RESPONSE_ONLY', psn, roce.aeth(roce.ACK, 1), b'bad!'),
            'WRITE without RETH': flow.frame('RC_RDMA_WRITE_ONLY', psn),
        }
        for name, frame in bad.items():
            with self.subTest(name):
                frames, completions = self.give_frame(frame)
                self.assertEqual([str(one) for one in frames], [], 'no answer')
                self.assertEqual(completions, [])
        self.psn, self.msn = psn + 1, 1
        frames, completions = self.give_frame(good)
        self.expect_ack(frames)
        self.assertEqual(self.peek(4096, 4), b'good')

    def test_another_address_is_not_the_peer(self):
        self.model.say('recv 4096 64')
        stranger = roce.Flow('10.0.0.77' if self.version == 4 else 'fd00::77', self.flow.dst, self.flow.src_mac,
                             self.flow.dst_mac, self.flow.qpn)
        frame = stranger.frame('RC_SEND_ONLY', self.psn, payload=b'evil', ackreq=1)
        self.assertEqual(self.give_frame(frame), ([], []))

    # ---- the model sends

    def demand(self, command):
        frames, completions, _ = self.model.say(command)
        parsed = [self.parse(frame) for frame in frames]
        for frame in parsed:
            self.assertEqual(frame.psn, self.expected_psn)
            self.expected_psn = self.expected_psn + 1 & 0xffffff
        return parsed, completions

    def acknowledge(self, last, msn):
        frames, completions = self.give_frame(self.flow.frame('RC_ACKNOWLEDGE', last.psn, roce.aeth(roce.ACK, msn)))
        self.assertEqual(frames, [])
        return completions

    def expect_message(self, frames, kind, length, seed, imm, inv=None):
        count = max(1, -(-length // MTU))
        places = ['ONLY'] if count == 1 else ['FIRST'] + ['MIDDLE'] * (count - 2) + ['LAST']
        names = ['RC_%s_%s' % (kind, place) for place in places]
        if imm:
            names[-1] += '_WITH_IMMEDIATE'
            self.assertEqual(frames[-1].imm(), 0x1badcafe)
        if inv is not None:
            names[-1] += '_WITH_INVALIDATE'
            self.assertEqual(frames[-1].ieth(), inv)
        self.assertEqual([frame.name for frame in frames], names)
        self.assertTrue(frames[-1].ackreq)
        self.assertEqual([len(frame.payload) for frame in frames[:-1]], [MTU] * (count - 1))
        self.assertEqual(b''.join(frame.payload for frame in frames), pattern(length, seed))

    def test_sends_and_writes_are_sent(self):
        msn = 0
        for op in ('send', 'send_imm', 'write', 'write_imm'):
            for length in (0, 1, 2, 3, 4, MTU - 1, MTU, MTU + 1, 3 * MTU, 4 * MTU + 1):
                with self.subTest(op=op, length=length):
                    self.model.say('fill 333 %d 21' % length)
                    frames, early = self.demand('post %s 333 %d %d %d' % (op, length, 0xabcdef0123, 0x99887700))
                    self.assertEqual(early, [], 'nothing completes before it is acknowledged')
                    self.expect_message(frames, 'RDMA_WRITE' if 'write' in op else 'SEND', length, 21, 'imm' in op)
                    if 'write' in op:
                        self.assertEqual(frames[0].reth(), (0xabcdef0123, 0x99887700, length))
                    msn += 1
                    completions = self.acknowledge(frames[-1], msn)
                    self.assertEqual([wc[0::2][:2] for wc in completions], [['send', 0]])

    def test_sends_with_invalidate_are_sent(self):
        for msn, length in enumerate((0, 1, MTU - 1, MTU, MTU + 1, 3 * MTU), 1):
            with self.subTest(length=length):
                self.model.say('fill 333 %d 21' % length)
                frames, early = self.demand('post send_inv 333 %d 0 %d' % (length, 0x99887701))
                self.assertEqual(early, [])
                self.expect_message(frames, 'SEND', length, 21, False, inv=0x99887701)
                self.assertEqual([wc[0::2][:2] for wc in self.acknowledge(frames[-1], msn)], [['send', 0]])

    def test_reads_are_asked_and_placed(self):
        msn = 0
        for length in (0, 1, 4, MTU, MTU + 1, 3 * MTU + 9):
            with self.subTest(length=length):
                frames, _ = self.demand('post read %d %d %d %d' % (HALF, length, 0x7000, 0x1200))
                self.assertEqual([frame.name for frame in frames], ['RC_RDMA_READ_REQUEST'])
                # The key of an empty READ is nobody's business (C9-88); soft-RoCE wants 0 when it is repeated
                self.assertEqual(frames[0].reth(), (0x7000, 0x1200 if length else 0, length))
                parts, first = self.in_packets(pattern(length, 60)), frames[0].psn
                self.expected_psn = (first + len(parts)) & 0xffffff
                msn += 1
                for i, part in enumerate(parts):
                    place = 'ONLY' if len(parts) == 1 else 'FIRST' if i == 0 else 'LAST' if i == len(parts) - 1 else 'MIDDLE'
                    headers = b'' if place == 'MIDDLE' else roce.aeth(roce.ACK, msn)
                    frame = self.flow.frame('RC_RDMA_READ_RESPONSE_' + place, first + i, headers, part)
                    self.model.traffic.append(frame)
                    answer, completions = self.give_frame(frame)
                    self.assertEqual(answer, [])
                    self.assertEqual(len(completions), int(i == len(parts) - 1))
                self.assertEqual(completions[0][2], 0)
                self.assertEqual(self.peek(HALF, length), pattern(length, 60))

    def test_a_sequence_nak_makes_it_send_again(self):
        self.model.say('fill 0 %d 3' % (3 * MTU))
        frames, _ = self.demand('post send 0 %d' % (3 * MTU))
        nak = self.flow.frame('RC_ACKNOWLEDGE', frames[1].psn, roce.aeth(roce.NAK_SEQ, 0))
        again, completions = self.give_frame(nak)
        self.assertEqual([(one.name, one.psn, one.payload) for one in again],
                         [(one.name, one.psn, one.payload) for one in frames[1:]])
        self.assertEqual(completions, [])
        self.assertEqual(self.acknowledge(frames[-1], 1)[0][2], 0)

    def test_rnr_is_waited_for(self):
        frames, _ = self.demand('post send 0 10')
        rnr = self.flow.frame('RC_ACKNOWLEDGE', frames[0].psn, roce.aeth(roce.RNR | 20, 0))  # 10.24 ms
        self.assertEqual(self.give_frame(rnr), ([], []))
        early, _, _ = self.model.say('run 9000')
        self.assertEqual(early, [], 'before the time the receiver asked for')
        late, _, _ = self.model.say('run 12000')
        self.assertEqual([self.parse(frame).psn for frame in late], [frames[0].psn])

    def test_fatal_naks_complete_with_their_error(self):
        for syndrome in (roce.NAK_INVALID, roce.NAK_ACCESS, roce.NAK_OPERATION):
            with self.subTest(syndrome=hex(syndrome)):
                self.tearDown()
                self.setUp()
                frames, _ = self.demand('post send 0 10')
                nak = self.flow.frame('RC_ACKNOWLEDGE', frames[0].psn, roce.aeth(syndrome, 0))
                _, completions = self.give_frame(nak)
                self.assertEqual(len(completions), 1)
                self.assertNotEqual(completions[0][2], 0)

    def test_silence_makes_it_send_again_and_give_up(self):
        frames, _ = self.demand('post send 0 10')
        total = []
        for _ in range(40):
            again, completions, _ = self.model.say('run 100000')
            total += again
            if completions:
                break
        self.assertEqual(len(total), 7, 'retry_cnt more times')
        self.assertEqual(set(total), {self.model.traffic[0]}, 'the same packet')
        self.assertEqual(completions[0][2], 0x81, 'the vendor error of a transport retry count exceeded')


class PeerTestIPv6(PeerTest):
    version = 6


if __name__ == '__main__':
    MODEL = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
