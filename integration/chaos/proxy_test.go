package chaos

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// echo starts a server that sends back what it receives.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

type proxyPlace struct {
	*testing.T
	proxy *Proxy
}

func newPlace(t *testing.T) proxyPlace {
	t.Helper()
	p, err := Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close) // before the echo server, whose end waits for its connections
	return proxyPlace{t, p}
}

func (p proxyPlace) set(m Mode) {
	p.Helper()
	if err := p.proxy.Set(m); err != nil {
		p.Fatal(err)
	}
}

func (p proxyPlace) dial() net.Conn {
	p.Helper()
	c, err := net.Dial("tcp", p.proxy.Addr())
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = c.Close() })
	return c
}

func (p proxyPlace) say(c net.Conn, word string) {
	p.Helper()
	if _, err := io.WriteString(c, word); err != nil {
		p.Fatal(err)
	}
}

// hear reads a word that must come.
func (p proxyPlace) hear(c net.Conn, word string) {
	p.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	got := make([]byte, len(word))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
		p.Fatalf("got %q, %v, want %q", got, err, word)
	}
}

// silent checks that nothing arrives for 100 ms and that the connection stays open.
func (p proxyPlace) silent(c net.Conn) {
	p.Helper()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		p.Fatalf("%d bytes, %v, want silence", n, err)
	}
}

// broken checks that the connection ends.
func (p proxyPlace) broken(c net.Conn) {
	p.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		p.Fatalf("%d bytes, %v, want the end", n, err)
	}
}

// refused checks that a new connection fails.
func (p proxyPlace) refused() {
	p.Helper()
	c, err := net.Dial("tcp", p.proxy.Addr())
	if err != nil {
		return // it was reset while it was made
	}
	defer c.Close()
	p.broken(c)
}

func TestUp(t *testing.T) {
	p := newPlace(t)
	c := p.dial()
	long := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() { _, _ = c.Write(long) }()
	p.hear(c, string(long))
	if n := p.proxy.Taken(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// What a server sends before it hangs up still arrives.
func TestLastWords(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.WriteString(c, "bye")
			err = errors.Join(err, c.Close())
		}
		served <- err
	}()
	p := newPlace(t)
	p.proxy.SetTarget(l.Addr().String())
	c := p.dial()
	p.hear(c, "bye")
	p.broken(c)
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestCut(t *testing.T) {
	p := newPlace(t)
	c := p.dial()
	p.say(c, "one")
	p.hear(c, "one")
	p.set(Mode{Kind: LinkCut})
	p.broken(c)
	p.refused()
	p.set(Mode{})
	c = p.dial()
	p.say(c, "two")
	p.hear(c, "two")
}

func TestBlackhole(t *testing.T) {
	p := newPlace(t)
	c := p.dial()
	p.say(c, "one")
	p.hear(c, "one")
	p.set(Mode{Kind: LinkBlackhole})
	p.say(c, "two")
	late := p.dial()
	p.say(late, "late")
	p.silent(c)
	p.silent(late)
	p.set(Mode{})
	p.hear(c, "two")
	p.hear(late, "late")
}

func TestHalfOpen(t *testing.T) {
	p := newPlace(t)
	c := p.dial()
	p.say(c, "one")
	p.hear(c, "one")
	p.set(Mode{Kind: LinkHalfOpen})
	p.say(c, "two")
	late := p.dial()
	p.say(late, "late")
	p.silent(c)
	p.silent(late)
	p.set(Mode{})
	p.broken(c)
	p.broken(late)
	c = p.dial()
	p.say(c, "three")
	p.hear(c, "three")
}

func TestDelay(t *testing.T) {
	p := newPlace(t)
	c := p.dial()
	const late = 60 * time.Millisecond
	p.set(Mode{Kind: LinkDelay, Delay: late})
	start := time.Now()
	p.say(c, "one")
	p.hear(c, "one")
	if took := time.Since(start); took < 2*late {
		t.Errorf("there and back took %v, want at least %v", took, 2*late)
	}
	// The end of a long delay also ends it for data that is already under way.
	p.set(Mode{Kind: LinkDelay, Delay: time.Hour})
	p.say(c, "two")
	p.silent(c)
	p.set(Mode{})
	p.hear(c, "two")
}

func TestThrottle(t *testing.T) {
	p := newPlace(t)
	c := p.dial()
	p.set(Mode{Kind: LinkThrottle, Rate: 10_000})
	start := time.Now()
	p.say(c, string(make([]byte, 2000)))
	p.hear(c, string(make([]byte, 2000)))
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("2000 bytes took %v at 10,000 a second", took)
	}
}

func TestDrop(t *testing.T) {
	p := newPlace(t)
	// One word there and back, another one there: its echo is the fourth.
	p.set(Mode{Kind: LinkDrop, Every: 4})
	c := p.dial()
	p.say(c, "one")
	p.hear(c, "one")
	p.say(c, "two")
	p.broken(c)
}

func TestStall(t *testing.T) {
	p := newPlace(t)
	const late = 150 * time.Millisecond
	p.set(Mode{Kind: LinkStall, Every: 2, Delay: late}) // the echo is the second
	c := p.dial()
	start := time.Now()
	p.say(c, "one")
	p.hear(c, "one")
	if took := time.Since(start); took < late {
		t.Errorf("the second chunk came after %v, want %v at least", took, late)
	}
	p.say(c, "two")
	p.hear(c, "two")
	p.set(Mode{})
	p.say(c, "three")
	p.hear(c, "three")
}

func TestLose(t *testing.T) {
	p := newPlace(t)
	p.set(Mode{Kind: LinkLose, Every: 3}) // one word there and back; the next one is lost
	c := p.dial()
	p.say(c, "one")
	p.hear(c, "one")
	p.say(c, "two")
	p.silent(c)
	p.say(c, "three")
	p.hear(c, "three")
}

func TestNobodyListens(t *testing.T) {
	p := newPlace(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	p.proxy.SetTarget(addr)
	p.refused()
}

func TestCloseEndsEverything(t *testing.T) {
	for _, m := range []Mode{{}, {Kind: LinkBlackhole}, {Kind: LinkHalfOpen}, {Kind: LinkDelay, Delay: time.Hour}, {Kind: LinkThrottle, Rate: 1}, {Kind: LinkStall, Every: 2, Delay: time.Hour}} {
		t.Run(m.Kind.String(), func(t *testing.T) {
			p := newPlace(t)
			before := p.dial()
			p.say(before, "one")
			p.hear(before, "one")
			p.set(m)
			after := p.dial()
			p.say(before, "two")
			p.say(after, "two")
			p.proxy.Close()
			_ = before.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, before); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still there")
			}
		})
	}
}

func TestModesAreChecked(t *testing.T) {
	p := newPlace(t)
	for _, m := range []Mode{{Kind: LinkDelay}, {Kind: LinkThrottle}, {Kind: LinkDrop}, {Kind: LinkDrop, Every: 1}, {Kind: LinkStall, Every: 2}, {Kind: LinkStall, Delay: 1}, {Kind: LinkLose}} {
		if err := p.proxy.Set(m); err == nil {
			t.Errorf("%+v is accepted", m)
		}
	}
}
