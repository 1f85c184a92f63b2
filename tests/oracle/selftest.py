#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The oracle itself: its two ICRCs agree, its packets satisfy its checks and tshark, and its checks notice damage."""
import tempfile
import unittest

import roce
import tshark


def flows():
    yield roce.Flow('10.0.0.153', '10.0.0.1', '02:53:49:00:00:99', '02:53:49:00:00:01', 0x000002)
    yield roce.Flow('fd00::99', 'fd00::1', '02:53:49:00:00:99', '02:53:49:00:00:01', 0x000002)


def one_of_each(flow):
    payload = bytes(range(1, 252))
    for name, opcode in sorted(roce.OPCODES.items(), key=lambda item: item[1]):
        if not name.startswith('RC_') or 'ATOMIC' in name or name in ('RC_COMPARE_SWAP', 'RC_FETCH_ADD'):
            continue
        headers = b''
        if roce.header_length(opcode) >= 16:
            headers += roce.reth(0x123456789abc, 0xdeadbeef, 4096)
        if name.endswith('IMMEDIATE'):
            headers += roce.immdt(0x01020304)
        if name.endswith('INVALIDATE'):
            headers += roce.ieth(0xdeadbeef)
        if name == 'RC_ACKNOWLEDGE' or 'RESPONSE' in name and 'MIDDLE' not in name:
            headers += roce.aeth(roce.ACK, 7)
        empty = name in ('RC_ACKNOWLEDGE', 'RC_RDMA_READ_REQUEST')
        full = 'FIRST' in name or 'MIDDLE' in name
        yield flow.frame(name, 0xfffffe, headers, b'' if empty else payload + b'12345' if full else payload, ackreq=1)


class Oracle(unittest.TestCase):
    def test_checks_accept_what_scapy_makes(self):
        for flow in flows():
            for frame in one_of_each(flow):
                parsed = roce.Parsed(frame)
                self.assertEqual(parsed.problems, [], str(parsed))

    def test_every_damaged_byte_is_noticed(self):
        for flow in flows():
            frame = flow.frame('RC_SEND_ONLY', 5, payload=b'hello, world')
            masked = 0
            for at in range(14 + (20 if '.' in flow.src else 40), len(frame)):
                damaged = bytearray(frame)
                damaged[at] ^= 0x10
                parsed = roce.Parsed(bytes(damaged))
                masked += parsed.is_roce and not parsed.problems
            self.assertLessEqual(masked, 2, 'only the two bytes of the UDP checksum are not covered')

    def test_tshark_understands_each_opcode(self):
        if not tshark.available():
            self.fail('tshark is not installed')
        frames = [frame for flow in flows() for frame in one_of_each(flow)]
        with tempfile.NamedTemporaryFile(suffix='.pcap') as file:
            roce.write_pcap(file.name, frames)
            report = tshark.decode(file.name)
        self.assertEqual(len(report), len(frames))
        for line in report:
            self.assertFalse(line.malformed, line)
        self.assertEqual([line.opcode for line in report], [roce.Parsed(frame).opcode for frame in frames])
        self.assertEqual({line.opcode: line.ieth for line in report if line.ieth}, {0x16: 0xdeadbeef, 0x17: 0xdeadbeef})


if __name__ == '__main__':
    unittest.main(verbosity=2)
