#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""check_pcap.py FILE.pcap [--opcodes N]: every RoCEv2 packet of a capture, by scapy's rules and by tshark's.

Prints how many packets of each opcode there were; fails on any wrong ICRC, field or malformed mark, and when fewer
than N different opcodes appeared.
"""
import argparse
import collections
import sys

import roce
import tshark


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('pcap')
    parser.add_argument('--opcodes', type=int, default=1)
    args = parser.parse_args()
    counts, bad = collections.Counter(), []
    for number, frame in enumerate(roce.read_pcap(args.pcap), 1):
        parsed = roce.Parsed(frame)
        if parsed.is_roce and parsed.name != 'CNP':
            counts[parsed.name] += 1
            bad += ['packet %d, %s: %s' % (number, parsed, problem) for problem in parsed.problems]
    lines = tshark.decode(args.pcap)
    bad += ['tshark: ' + line.text for line in lines if line.malformed]
    for name, count in sorted(counts.items()):
        print('%8d %s' % (count, name))
    print('%d packets, %d opcodes, %d decoded by tshark, %d problems' % (sum(counts.values()), len(counts), len(lines),
                                                                       len(bad)))
    print('\n'.join(bad[:20]))
    if sum(counts.values()) != len(lines):
        print('tshark decoded another number of packets')
        return 1
    return 1 if bad or len(counts) < args.opcodes else 0


if __name__ == '__main__':
    sys.exit(main())
