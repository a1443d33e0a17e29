"""Runs three instructions in a virtual machine of KVM: `mov al, 42; out 16, al; hlt`."""

import ctypes
import fcntl
import mmap
import os
import struct

CREATE_VM, CHECK_EXTENSION, VCPU_MAP_SIZE, CREATE_VCPU = 0xAE01, 0xAE03, 0xAE04, 0xAE41
RUN, SET_MEMORY, SET_REGISTERS = 0xAE80, 0x4020AE46, 0x4090AE82
GET_SEGMENTS, SET_SEGMENTS = 0x8138AE83, 0x4138AE84
EXIT_IO, EXIT_HLT = 2, 5

kvm = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
machine = fcntl.ioctl(kvm, CREATE_VM, 0)
memory = mmap.mmap(-1, 4096)
memory.write(b"\xb0\x2a\xe6\x10\xf4")
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
fcntl.ioctl(machine, SET_MEMORY, struct.pack("IIQQQ", 0, 0, 0x1000, 4096, address))
processor = fcntl.ioctl(machine, CREATE_VCPU, 0)
state = mmap.mmap(processor, fcntl.ioctl(kvm, VCPU_MAP_SIZE, 0))
segments = bytearray(312)
fcntl.ioctl(processor, GET_SEGMENTS, segments)
struct.pack_into("QIH", segments, 0, 0, 0xFFFF, 0)  # The code segment starts at 0.
fcntl.ioctl(processor, SET_SEGMENTS, bytes(segments))
registers = [0] * 18
registers[16], registers[17] = 0x1000, 2  # rip and rflags
fcntl.ioctl(processor, SET_REGISTERS, struct.pack("18Q", *registers))


def run():
    fcntl.ioctl(processor, RUN, 0)
    return struct.unpack_from("I", state, 8)[0]


assert run() == EXIT_IO, "no output instruction"
direction, size, port, count, offset = struct.unpack_from("BBHIQ", state, 32)
assert (direction, size, port, count, state[offset]) == (1, 1, 16, 1, 42), "another output"
assert run() == EXIT_HLT, "no halt"
