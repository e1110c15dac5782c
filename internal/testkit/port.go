package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports of [Port]: systems hand out those from 32768 on, or from 49152.
const firstPort, lastPort = 20000, 32767

// Port returns a free port of loopback for a server that stops and starts again. The system gives it to
// nobody who asks for any port, so nobody has it meanwhile.
func Port(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no port is free")
	return 0
}
