package crawler

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// live is a program that runs, with the pipes to and from it.
type live struct {
	stdin  *io.PipeWriter
	stdout *bufio.Scanner
	stderr strings.Builder
	seen   strings.Builder
	code   chan int
}

func start(t *testing.T, args ...string) *live {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	l := &live{stdin: inW, stdout: bufio.NewScanner(outR), code: make(chan int, 1)}
	go func() {
		l.code <- Main(args, inR, outW, &l.stderr)
		outW.Close()
	}()
	t.Cleanup(func() { inW.Close() })
	return l
}

// until reads the output up to a line that holds text.
func (l *live) until(t *testing.T, text string) {
	t.Helper()
	for l.stdout.Scan() {
		l.seen.WriteString(l.stdout.Text() + "\n")
		if strings.Contains(l.stdout.Text(), text) {
			return
		}
	}
	t.Fatalf("the program never said %q, but:\n%s%s", text, &l.seen, &l.stderr)
}

// end reads the rest of the output.
func (l *live) end(t *testing.T) *said {
	t.Helper()
	for l.stdout.Scan() {
		l.seen.WriteString(l.stdout.Text() + "\n")
	}
	return read(t, <-l.code, l.seen.String(), l.stderr.String())
}

func (l *live) cancel(t *testing.T, reason string, deadline time.Time) {
	t.Helper()
	l.write(t, fmt.Sprintf(`{"type":"CANCEL","payload":{"reason":%q,"deadline":%q}}`, reason, deadline.Format(time.RFC3339Nano)))
}

func (l *live) write(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(l.stdin, line+"\n"); err != nil {
		t.Error(err)
	}
}

// slowSite is a page that links to others, which answer when release is closed.
func slowSite(t *testing.T) (address string, asked <-chan string, release chan<- struct{}) {
	requests, done := make(chan string, 100), make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path
		select {
		case <-done:
			linksTo("/never")(w, r)
		case <-r.Context().Done():
		}
	}
	pages := map[string]http.HandlerFunc{"/": linksTo("/1", "/2", "/3", "/4", "/5")}
	for i := range 5 {
		pages[fmt.Sprintf("/%d", i+1)] = slow
	}
	return serve(t, pages).URL, requests, done
}

func TestCancelLetsPagesEnd(t *testing.T) {
	// Given two pages in flight and three that wait.
	address, asked, release := slowSite(t)
	l := start(t, "--delay=0", "--workers=2", address)
	l.until(t, "1 of 6 pages")
	<-asked
	<-asked

	// When a cancel comes, among other lines, and the pages answer before the deadline.
	l.write(t, "no JSON")
	l.write(t, `{"type":"PING"}`)
	l.write(t, strings.Repeat("x", 200<<10))
	l.cancel(t, "enough", time.Now().Add(time.Hour))
	l.until(t, "stopping; pages in flight: 2")
	close(release)

	// Then they are recorded, and no more is asked for.
	s := l.end(t)
	if s.code != ExitStopped {
		t.Errorf("exit code %d, want %d", s.code, ExitStopped)
	}
	if r := s.result(t); r.Pages != 3 || r.Errors != 0 || r.Left != 4 {
		t.Errorf("result %+v, want 3 pages and 4 left", r)
	}
	if last := s.status[len(s.status)-1]; !strings.Contains(last.Message, "cancelled: enough") || last.Progress == 1 {
		t.Errorf("the last status is %+v", last)
	}
	if len(asked) != 0 {
		t.Errorf("%s was asked for after the cancel", <-asked)
	}
}

func TestCancelAtTheDeadline(t *testing.T) {
	address, asked, _ := slowSite(t)
	l := start(t, "--delay=0", "--workers=2", address)
	l.until(t, "1 of 6 pages")
	<-asked

	l.cancel(t, "now", time.Now())

	s := l.end(t)
	if s.code != ExitStopped {
		t.Errorf("exit code %d, want %d", s.code, ExitStopped)
	}
	// A page that was aborted is not to blame: it has no record.
	if r := s.result(t); r.Pages != 1 || r.Errors != 0 || r.Left != 5 {
		t.Errorf("result %+v, want 1 page and 5 left", r)
	}
}

func TestCancelWhileReadingRobots(t *testing.T) {
	asked := make(chan struct{}, 1)
	l := start(t, serve(t, map[string]http.HandlerFunc{
		"/robots.txt": func(_ http.ResponseWriter, r *http.Request) { asked <- struct{}{}; <-r.Context().Done() },
	}).URL)
	l.until(t, "crawling")
	<-asked

	l.cancel(t, "now", time.Now())

	if s := l.end(t); s.code != ExitStopped || s.result(t).Pages != 0 {
		t.Errorf("exit code %d, result %+v", s.code, s.results)
	}
}

func TestSignals(t *testing.T) {
	address, asked, _ := slowSite(t)
	l := start(t, "--delay=0", address)
	l.until(t, "1 of 6 pages")
	<-asked

	signalSelf(t)
	l.until(t, "stopping")
	signalSelf(t) // the second one does not wait for the pages in flight

	s := l.end(t)
	if s.code != ExitStopped {
		t.Errorf("exit code %d, want %d", s.code, ExitStopped)
	}
	if last := s.status[len(s.status)-1]; !strings.Contains(last.Message, "signal: terminated") {
		t.Errorf("the last status is %+v", last)
	}
}

func signalSelf(t *testing.T) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGTERM)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestStopper(t *testing.T) {
	type ask struct {
		after, deadline time.Duration // from the beginning; no deadline: 0
	}
	for _, c := range []struct {
		name  string
		asks  []ask
		abort time.Duration
	}{
		{"a signal", []ask{{0, 0}}, 4 * time.Second},
		{"a cancel far away", []ask{{0, time.Minute}}, 59 * time.Second},
		{"a cancel soon", []ask{{0, 2 * time.Second}}, 1500 * time.Millisecond},
		{"a cancel too late", []ask{{0, -time.Second}}, 0},
		{"the cancel after its signal", []ask{{0, 0}, {1, time.Minute}}, 59 * time.Second},
		{"the signal after its cancel", []ask{{0, time.Minute}, {1, 0}}, 59 * time.Second},
		{"two cancels", []ask{{0, time.Minute}, {time.Second, 3 * time.Second}}, 2500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, abort := context.WithCancelCause(t.Context())
				s := newStopper(abort)
				defer s.close()
				began := time.Now()
				for _, a := range c.asks {
					time.Sleep(a.after)
					deadline := time.Time{}
					if a.deadline != 0 {
						deadline = began.Add(a.deadline)
					}
					s.ask("why", deadline)
					<-s.asked
				}
				<-ctx.Done()
				if got := time.Since(began); got != c.abort {
					t.Errorf("aborted after %v, want %v", got, c.abort)
				}
				if cause := context.Cause(ctx); cause.Error() != "why" || s.reason() != "why" {
					t.Errorf("cause %v, reason %q", cause, s.reason())
				}
			})
		})
	}
}

func TestCancelMessages(t *testing.T) {
	for line, why := range map[string]string{
		`{"type":"CANCEL","payload":{"reason":"r","deadline":"2026-01-02T03:04:05Z"}}`: "cancelled: r",
		`{"type":"CANCEL"}`: "cancelled",
		`{"type":"CANCEL","payload":{"deadline":"soon"}}`: "cancelled",
		`{"type":"CANCEL","payload":7}`:                   "cancelled",
		`{"type":"PING","payload":{"reason":"r"}}`:        "",
		`CANCEL`: "",
		``:       "",
		strings.Repeat(" ", 100<<10) + `{"type":"CANCEL"}`: "", // no line of Millrace is as long
	} {
		s := newStopper(func(error) {})
		s.onMessages(strings.NewReader("x\n" + line + "\n"))
		s.close()
		if s.reason() != why {
			t.Errorf("%.60q: reason %q, want %q", line, s.reason(), why)
		}
	}
}
