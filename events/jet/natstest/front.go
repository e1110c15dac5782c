package natstest

import (
	"bufio"
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Front stands before a NATS server and can speak for it: it sends errors to clients as the server
// would. Else it passes everything on.
type Front struct {
	listener net.Listener
	server   *url.URL

	mu     sync.Mutex
	refuse string         // guarded by mu; the error for each connection that comes, "" for none
	came   int            // guarded by mu; how many connections came since Refuse
	open   map[*line]bool // guarded by mu
}

// line is one client's connection.
type line struct {
	client net.Conn
	mu     sync.Mutex // held while a message goes to the client
}

// NewFront starts a front of the server at a URL, which ends with the test.
func NewFront(t testing.TB, server string) *Front {
	t.Helper()
	listener := Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := &Front{listener: listener, server: Must(url.Parse(server))(t), open: map[*line]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { f.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		f.mu.Lock()
		for l := range f.open {
			_ = l.client.Close()
		}
		f.mu.Unlock()
		all.Wait()
	})
	return f
}

// URL is where clients connect.
func (f *Front) URL() string {
	at := *f.server
	at.Host = f.listener.Addr().String()
	return at.String()
}

// Refuse makes the front refuse connections with an error of the server, or no more with "".
func (f *Front) Refuse(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse, f.came = text, 0
}

// Refused is how many connections came since the last call of Refuse.
func (f *Front) Refused() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.came
}

// Open is how many connections there are.
func (f *Front) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// Say sends an error of the server to all clients, and ends their connections.
func (f *Front) Say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.open {
		l.mu.Lock()
		_, _ = l.client.Write([]byte("-ERR '" + text + "'\r\n"))
		l.mu.Unlock()
	}
}

func (f *Front) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", f.server.Host)
	if err != nil {
		return
	}
	defer server.Close()
	l := &line{client: client}
	f.mu.Lock()
	refuse := f.refuse
	f.came++
	f.open[l] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.open, l)
		f.mu.Unlock()
	}()
	from := bufio.NewReader(server)
	info, err := from.ReadBytes('\n')
	if err != nil {
		return
	}
	_, _ = client.Write(info)
	if refuse != "" {
		_, _ = bufio.NewReader(client).ReadBytes('\n') // it says who it is
		_, _ = client.Write([]byte("-ERR '" + refuse + "'\r\n"))
		return
	}
	go func() {
		_, _ = bufio.NewReader(client).WriteTo(server)
		_ = server.Close()
	}()
	for {
		// A whole line and what follows it at once: an error of ours never comes amid a message of
		// an idle server.
		part, err := from.ReadSlice('\n')
		if err != nil && len(part) == 0 {
			return
		}
		part = bytes.Clone(part)
		l.mu.Lock()
		_, err = client.Write(part)
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}
