#!/usr/bin/env bash
# NVRTC 13.0.88: the first compilation in a process handles SIGINT and SIGTERM for as long as it lasts, and afterwards puts the
# handlers of the program back without SA_SIGINFO. Such a handler still runs, but the siginfo_t that it is given says nothing:
# it can no longer tell which process sent the signal. Later compilations change nothing. Who needs the sender saves the handlers
# with sigaction() before, and restores them; so does who calls a library that compiles kernels by NVRTC.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh" nvidia-cuda-nvrtc==13.0.88

run_python <<'PYTHON'
import ctypes
import glob
import os.path
import signal
import sysconfig

SA_SIGINFO, SA_RESTART = 4, 0x10000000


class Action(ctypes.Structure):  # struct sigaction of Linux on x86-64 and 64-bit Arm
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_ubyte * 128), ("flags", ctypes.c_int),
                ("restorer", ctypes.c_void_p)]


libc = ctypes.CDLL(None)
Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
handler = Handler(lambda number, info, context: None)
names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def flags(number):
    action = Action()
    libc.sigaction(number, None, ctypes.byref(action))
    return action.flags & (SA_SIGINFO | SA_RESTART), action.handler == ctypes.cast(handler, ctypes.c_void_p).value


def install():
    for number in names:
        action = Action(handler=ctypes.cast(handler, ctypes.c_void_p).value, flags=SA_SIGINFO | SA_RESTART)
        assert libc.sigaction(number, ctypes.byref(action), None) == 0


[path] = glob.glob(os.path.join(sysconfig.get_path("purelib"), "nvidia", "**", "libnvrtc.so.1*"), recursive=True)
nvrtc = ctypes.CDLL(path)


def compile_once():
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void f() {}", b"f.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"-arch=sm_90")
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0


for compilation in ("first", "second"):
    install()
    compile_once()
    for number in names:
        seen, same = flags(number)
        print(f"after the {compilation} compilation, {number.name}: our handler {same}, SA_SIGINFO {bool(seen & SA_SIGINFO)}")
        lost = compilation == "first" and number != signal.SIGHUP
        assert same and bool(seen & SA_SIGINFO) != lost
PYTHON
