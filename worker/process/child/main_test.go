//go:build linux

package child

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"millrace/ipc"
)

// TestMain also makes this program a guard or a worker, if its first argument asks for that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guard":
			if err := GuardMain(os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		case "orphans":
			orphanMain(os.Args[2:])
			return
		case "worker":
			workerMain(os.Args[2:])
			return
		}
	}
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}

// leaks fails if goroutines, children or files are left after the tests.
func leaks() int {
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		fmt.Fprintf(os.Stderr, "a child is left: %d, %v\n", pid, err)
		return 1
	}
	if pipes := openPipes(); pipes > pipesAtStart {
		fmt.Fprintf(os.Stderr, "%d descriptors of pipes and processes are open, %d were at the start\n", pipes, pipesAtStart)
		return 1
	}
	return 0
}

var pipesAtStart = openPipes()

func openPipes() (n int) {
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name())
		if strings.HasPrefix(to, "pipe:") || strings.Contains(to, "pidfd") {
			n++
		}
	}
	return n
}

// runner returns a Runner without a guard that lives as long as the test.
func runner(t testing.TB) *Runner {
	t.Helper()
	r, err := NewRunner(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// record is a Sink that keeps everything.
type record struct {
	mu       sync.Mutex
	text     [3]strings.Builder
	messages []ipc.Message
	replaced bool

	said chan string // gets each whole line of Stdout, if not nil
}

func (r *record) Line(s Stream, line ipc.Line) {
	r.mu.Lock()
	r.text[s].Write(line.Text)
	if !line.Partial {
		r.text[s].WriteByte('\n')
	}
	r.replaced = r.replaced || line.Replaced
	r.mu.Unlock()
	if r.said != nil && s == Stdout && !line.Partial {
		line.Each(func(l ipc.Line) { r.said <- string(l.Text) })
	}
}

func (r *record) Message(m ipc.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, m)
}

func (r *record) Withheld(string) {}

func (r *record) stdout() string { return r.text[Stdout].String() }
func (r *record) stderr() string { return r.text[Stderr].String() }

// count is a Sink that only counts.
type count struct{ bytes, lines [3]int }

func (c *count) Line(s Stream, line ipc.Line) {
	line.Each(func(l ipc.Line) {
		c.bytes[s] += len(l.Text)
		c.lines[s]++
	})
}
func (c *count) Message(ipc.Message) {}
func (c *count) Withheld(string)     {}

func shell(line string) Command { return Command{Shell: line, Env: os.Environ()} }

// run runs a shell line to its end.
func run(t testing.TB, line string) (Result, *record) {
	t.Helper()
	var s record
	res := runner(t).Run(context.Background(), shell(line), &s)
	return res, &s
}
