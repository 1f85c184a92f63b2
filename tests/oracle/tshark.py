# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Wireshark's dissector as a second opinion on captured packets."""
import collections
import shutil
import subprocess

Line = collections.namedtuple('Line', 'number opcode ieth malformed text')
# Dissectors that guess at payloads, which are random here: theirs is no opinion on the packet.
GUESSERS = ('smc', 'smb_direct', 'rpcordma', 'nvme-rdma', 'lnet', 'iser', 'ethertype', 'infiniband.eoib', 'infiniband_sdp',
            'fcoib', 'drbd')
FIELDS = ('frame.number', 'infiniband.bth.opcode', 'infiniband.ieth', '_ws.malformed', '_ws.expert.message', '_ws.col.Info')


def available():
    return shutil.which('tshark') is not None


def decode(path):
    """One Line for each packet to the RoCE port."""
    command = ['tshark', '-r', path, '-d', 'udp.port==4791,infiniband', '-Y', 'udp.dstport==4791', '-T', 'fields',
               '-E', 'separator=|', '-E', 'occurrence=f']
    for name in GUESSERS:
        command += ['--disable-protocol', name]
    for field in FIELDS:
        command += ['-e', field]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = []
    for text in output.splitlines():
        number, opcode, ieth, malformed, expert, info = (text.split('|') + [''] * 6)[:6]
        bad = bool(malformed) or 'alformed' in expert + info
        lines.append(Line(int(number), int(opcode, 0) if opcode else None, int(ieth.replace(':', ''), 16) if ieth else None,
                          bad or not opcode, text))
    return lines
