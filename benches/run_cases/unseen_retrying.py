"""retrying: an answer of another process is asked for until it is there; repaired, waited for. unseen_retrying.py [repaired]"""

import os
import socket
import sys
import time

REPAIRED = len(sys.argv) > 1
REQUESTS = 500


def work(rounds):
    return sum(int(digit) for number in range(rounds) for digit in str(number))


def read_answer(connection):
    while True:
        try:
            return connection.recv(100)
        except BlockingIOError:
            time.sleep(0.005)


def serve(connection):
    while request := connection.recv(100):
        work(400)
        connection.send(request)


ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if os.fork() == 0:
    ours.close()
    serve(theirs)
    os._exit(0)
theirs.close()
ours.setblocking(REPAIRED)
for number in range(REQUESTS):
    ours.send(b"%d" % number)
    work(500)
    read_answer(ours)
    work(300)
ours.close()
os.wait()
