package natstest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Valve is a connection to the server that can hold back its answers.
type Valve struct {
	mu   sync.Mutex
	open chan struct{} // guarded by mu; closed while answers flow
}

// NewValve returns a valve that is open.
func NewValve() *Valve {
	v := &Valve{open: make(chan struct{})}
	close(v.open)
	return v
}

// Dial implements [nats.CustomDialer].
func (v *Valve) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &valveConn{Conn: c, v: v, closed: make(chan struct{})}, err
}

// Hold keeps answers back until Release.
func (v *Valve) Hold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = make(chan struct{})
}

// Release lets the held answers through.
func (v *Valve) Release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.open)
}

type valveConn struct {
	net.Conn
	v      *Valve
	once   sync.Once
	closed chan struct{}
}

func (c *valveConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.v.mu.Lock()
	open := c.v.open
	c.v.mu.Unlock()
	select {
	case <-open:
	case <-c.closed:
	}
	return n, err
}

func (c *valveConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// Lag is a connection to the server whose answers arrive late.
type Lag struct{ by atomic.Int64 }

// By makes what comes from now on arrive that late.
func (l *Lag) By(d time.Duration) { l.by.Store(int64(d)) }

// Dial implements [nats.CustomDialer].
func (l *Lag) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	late := &lagConn{Conn: c, came: make(chan piece, 1<<12)}
	go late.read(l)
	return late, nil
}

// piece is what came with one read.
type piece struct {
	body []byte
	due  time.Time
	err  error
}

type lagConn struct {
	net.Conn
	came chan piece
	rest piece // only of the reader
}

func (c *lagConn) read(l *Lag) {
	for {
		b := make([]byte, 1<<15)
		n, err := c.Conn.Read(b)
		c.came <- piece{b[:n], time.Now().Add(time.Duration(l.by.Load())), err}
		if err != nil {
			return
		}
	}
}

func (c *lagConn) Read(b []byte) (int, error) {
	if len(c.rest.body) == 0 {
		c.rest = <-c.came
		time.Sleep(time.Until(c.rest.due))
	}
	n := copy(b, c.rest.body)
	if c.rest.body = c.rest.body[n:]; len(c.rest.body) > 0 || c.rest.err == nil {
		return n, nil
	}
	err := c.rest.err
	c.came <- c.rest // for the next read
	return n, err
}

// Sieve is a connection to the server that loses some messages: those for which Lose, given the
// subject, the reply subject, and the body with its headers, returns true.
type Sieve struct {
	Lose func(subject, reply string, body []byte) bool
	last atomic.Value // the present net.Conn
}

// Cut ends the connection as a network does. The client makes another one. Its own ForceReconnect
// would also end the requests that wait for an answer.
func (s *Sieve) Cut() error { return s.last.Load().(net.Conn).Close() }

// Dial implements [nats.CustomDialer].
func (s *Sieve) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	s.last.Store(c)
	return &sieveConn{Conn: c, s: s, from: bufio.NewReader(c)}, nil
}

type sieveConn struct {
	net.Conn
	s    *Sieve
	from *bufio.Reader
	rest []byte // let through, and not read yet
}

func (c *sieveConn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		line, err := c.from.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		words := bytes.Fields(line)
		verb := string(words[0])
		if verb != "MSG" && verb != "HMSG" {
			c.rest = line
			break
		}
		size, err := strconv.Atoi(string(words[len(words)-1]))
		if err != nil {
			return 0, err
		}
		body := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(c.from, body); err != nil {
			return 0, err
		}
		var reply string
		if numbers := map[string]int{"MSG": 1, "HMSG": 2}[verb]; len(words) > 3+numbers { // verb, subject, subscription
			reply = string(words[3])
		}
		if !c.s.Lose(string(words[1]), reply, body) {
			c.rest = append(line, body...)
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Counter is a connection to the server that counts writes.
type Counter struct{ Writes atomic.Int64 }

// Dial implements [nats.CustomDialer].
func (w *Counter) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return countingConn{c, w}, err
}

type countingConn struct {
	net.Conn
	w *Counter
}

func (c countingConn) Write(b []byte) (int, error) {
	c.w.Writes.Add(1)
	return c.Conn.Write(b)
}
