"""load.py PORT SECONDS: two clients ask for the three routes in turn, 20 requests a connection."""

import http.client
import sys
import threading
import time

PATHS = ["/page", "/json", "/count"]


def ask(port, seconds, counts):
    end, number = time.time() + seconds, 0
    while time.time() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(20):
            connection.request("GET", PATHS[number % len(PATHS)])
            answer = connection.getresponse()
            answer.read()
            number += 1
            if answer.will_close:
                break
        connection.close()
    counts.append(number)


def main():
    port, seconds, counts = int(sys.argv[1]), float(sys.argv[2]), []
    clients = [threading.Thread(target=ask, args=(port, seconds, counts)) for _ in range(2)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    print(sum(counts), "requests")


main()
