//go:build linux

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"millrace/ipc"
	"millrace/task/value"
)

var errAsked = errors.New("a person asked")

// stopped starts a shell line, ends the context when it has said "up", and
// returns how it ended.
func stopped(t *testing.T, line string, grace time.Duration) (Result, *record) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s := &record{said: make(chan string, 1000)}
	done := make(chan Result)
	r := runner(t)
	c := shell(line)
	c.Grace, c.OpenStdin = grace, true
	go func() { done <- r.Run(ctx, c, s) }()
	for said := range s.said {
		if said == "up" {
			break
		}
	}
	cancel(errAsked)
	return <-done, s
}

func TestStopPolitely(t *testing.T) {
	res, s := stopped(t, `trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 1000 & wait; done`, time.Minute)
	if !res.Stopped || res.Exit == nil || *res.Exit != 7 || res.Class != value.Exit || !strings.Contains(res.Message, "a person asked") {
		t.Errorf("%+v", res)
	}
	if s.stdout() != "up\nbye\n" {
		t.Errorf("said %q", s.stdout())
	}
}

func TestStopWithExitZero(t *testing.T) {
	res, _ := stopped(t, `trap 'exit 0' TERM; echo up; while :; do sleep 1000 & wait; done`, time.Minute)
	if !res.Stopped || res.Exit == nil || *res.Exit != 0 || res.Class != "" || !strings.Contains(res.Message, "a person asked") {
		t.Errorf("%+v", res)
	}
}

// TestStopTellsTheProcess: the process can read on its input what SIGTERM does not tell.
func TestStopTellsTheProcess(t *testing.T) {
	before := time.Now()
	res, s := stopped(t, `trap "" TERM; echo up; read -r line; echo "$line"`, time.Minute)
	_, said, _ := strings.Cut(s.stdout(), "\n")
	var m struct {
		Type    string
		Payload struct {
			Reason   string
			Deadline time.Time
		}
	}
	if err := json.Unmarshal([]byte(said), &m); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	if m.Type != ipc.TypeCancel || m.Payload.Reason != "a person asked" || m.Payload.Deadline.Before(before.Add(time.Minute)) {
		t.Errorf("was told %+v", m)
	}
	if !res.Stopped || res.Class != "" {
		t.Errorf("%+v", res)
	}
}

func TestStopByForce(t *testing.T) {
	for name, c := range map[string]struct {
		line  string
		grace time.Duration
	}{
		"ignores TERM":               {`trap "" TERM; echo up; while :; do sleep 1000; done`, 20 * time.Millisecond},
		"and its children":           {`trap "" TERM; sleep 1000 & sh -c 'trap "" TERM; sleep 1000 & wait' & echo up; wait; wait`, 20 * time.Millisecond},
		"leader goes, child stays":   {`(trap "" TERM; echo up; while :; do sleep 1000; done) & wait`, 20 * time.Millisecond},
		"no grace":                   {`trap "echo no" TERM; echo up; while :; do sleep 1000; done`, 0},
		"floods":                     {`trap "" TERM; echo up; exec yes >&2`, 20 * time.Millisecond},
		"has closed all its streams": {`trap "" TERM; echo up; exec sleep 1000 <&- >&- 2>&-`, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			res, s := stopped(t, c.line, c.grace)
			if !res.Stopped || res.Class != value.Killed || res.Survivors != 0 {
				t.Errorf("%+v", res)
			}
			if s.stdout() != "up\n" {
				t.Errorf("said %q", s.stdout())
			}
		})
	}
}

func TestStopWakesASuspendedProcess(t *testing.T) {
	res, _ := stopped(t, `trap 'exit 5' TERM; (kill -STOP $$; until grep -q 'State:.T' /proc/$$/status; do :; done; echo up) & wait; wait`, time.Minute)
	if !res.Stopped || res.Exit == nil || *res.Exit != 5 {
		t.Errorf("%+v", res)
	}
}

// TestStopFindsWhoMissedTheSignal: a shell's child can lose SIGTERM while it is
// being started. Once it does not handle the signal it need not wait for the
// end of the grace.
func TestStopFindsWhoMissedTheSignal(t *testing.T) {
	begin := time.Now()
	res, _ := stopped(t, `sh -c 'trap "trap - TERM; exec sleep 1000" TERM; echo up; while :; do sleep 0.01; done' & wait`, 10*time.Minute)
	if took := time.Since(begin); !res.Stopped || res.Signal != "SIGTERM" || res.Survivors != 0 || took > time.Minute {
		t.Errorf("%+v after %v", res, took)
	}
}

// TestStopLeavesTheGraceToOthers: a shell dies of SIGTERM at once; the program that it runs still
// has its grace, and is asked only once.
func TestStopLeavesTheGraceToOthers(t *testing.T) {
	res, s := stopped(t, `sh -c 'n=0; trap "n=\$((n+1))" TERM; echo up; i=0; while [ $i -lt 20 ]; do sleep 0.01; [ $n = 0 ] || i=$((i+1)); done; echo asked $n'; echo never`, time.Minute)
	if !res.Stopped || res.Signal != "SIGTERM" || s.stdout() != "up\nasked 1\n" {
		t.Errorf("%+v, said %q", res, s.stdout())
	}
}

func TestStopBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errAsked)
	res := runner(t).Run(ctx, Command{Argv: []string{"/no/such/file"}}, &count{})
	if !res.Stopped || res.Exit != nil || res.Class != value.Killed || !strings.Contains(res.Message, "a person asked") {
		t.Errorf("%+v", res)
	}
}

// TestStopWhileItEnds: in either order, the two halves of the result agree.
func TestStopWhileItEnds(t *testing.T) {
	r := runner(t)
	for i := range 200 {
		ctx, cancel := context.WithCancelCause(context.Background())
		s := &record{said: make(chan string, 1)}
		go func() { <-s.said; cancel(errAsked) }()
		res := r.Run(ctx, Command{Shell: "echo up", Grace: time.Duration(i%2) * time.Second}, s)
		cancel(nil)
		switch {
		case res.Exit != nil && *res.Exit == 0 && res.Class == "":
		case res.Stopped && res.Class == value.Killed && (res.Signal == "SIGTERM" || res.Signal == "SIGKILL"):
		default:
			t.Fatalf("%+v", res)
		}
		if s.stdout() != "up\n" {
			t.Fatalf("said %q", s.stdout())
		}
	}
}

// TestStopAfterTheEnd: a process that has ended by itself does not count as stopped, even if its
// end was not noticed yet.
func TestStopAfterTheEnd(t *testing.T) {
	p, err := runner(t).spawner.start(&request{file: "/bin/true", argv: []string{"true"}, lim: &limits{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := IgnoringEINTR(func() error {
		return unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}); err != nil {
		t.Fatal(err)
	}
	p.stop(errAsked)
	if res := p.run(context.Background(), "true", &count{}); res.Stopped || res.Class != "" {
		t.Errorf("%+v", res)
	}
}

// TestStopReasonFits: however long the cause, the message is one write.
func TestStopReasonFits(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &record{said: make(chan string, 2)}
	go func() { <-s.said; cancel(errors.New(strings.Repeat("é\x00", 100_000))) }()
	c := shell(`trap "" TERM; echo up; read -r line; echo "${#line}"`)
	c.Grace, c.OpenStdin = time.Minute, true
	runner(t).Run(ctx, c, s)
	var n int
	if _, err := fmt.Sscanf(s.stdout(), "up\n%d\n", &n); err != nil || n < maxReason || n > 4096 {
		t.Errorf("%q: %v", s.stdout(), err)
	}
}

// blocked is a Sink that takes nothing until open closes.
type blocked struct {
	count
	open chan struct{}
}

func (b *blocked) Line(s Stream, line ipc.Line) { <-b.open; b.count.Line(s, line) }

// TestStopUnderBackPressure: a process that waits for its reader can be ended, and what it had
// written is still delivered.
func TestStopUnderBackPressure(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &blocked{open: make(chan struct{})}
	started := make(chan struct{})
	first := &hook{Sink: s, once: func() { close(started) }}
	done := make(chan Result)
	c := shell("yes")
	c.Grace = time.Minute
	r := runner(t)
	go func() { done <- r.Run(ctx, c, first) }()
	<-started
	cancel()
	close(s.open)
	if res := <-done; !res.Stopped || res.Signal != "SIGTERM" || s.lines[Stdout] == 0 {
		t.Errorf("%+v, %d lines", res, s.lines[Stdout])
	}
}

// hook calls once before the first line.
type hook struct {
	Sink
	once func()
}

func (h *hook) Line(s Stream, line ipc.Line) {
	if h.once != nil {
		h.once()
		h.once = nil
	}
	h.Sink.Line(s, line)
}
