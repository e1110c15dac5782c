package promises

import (
	"io"
	"millrace/integration/harness"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// person sits at a terminal on which replay fills the screen.
type person struct {
	*harness.Place
	t    *terminal
	cmd  *exec.Cmd
	sent *harness.Buffer
	read chan struct{} // closed when all is
}

func replays(p *harness.Place, columns, lines uint16, args ...string) *person {
	p.Helper()
	t := newTerminal(p, columns, lines)
	who := &person{p, t, t.start(p, append([]string{"replay"}, args...)...), &harness.Buffer{}, make(chan struct{})}
	go func() {
		defer close(who.read)
		// It ends with an error when the last process has closed the terminal.
		_, _ = io.Copy(who.sent, t.screen)
	}()
	return who
}

func (p *person) press(keys string) {
	p.Helper()
	if _, err := io.WriteString(p.t.screen, keys); err != nil {
		p.Fatal(err)
	}
}

// moves matches moves of the cursor over blanks, unseen other control sequences, and cleared begins
// a new picture.
var (
	moves   = regexp.MustCompile("\x1b\\[[0-9]*[CG]")
	unseen  = regexp.MustCompile("\x1b\\[[0-9;:?<>=]*[ -/]*[@-~]")
	cleared = "\x1b[2J"
)

// shows returns what the screen shows since it was last drawn anew.
func (p *person) shows() string {
	sent := p.sent.String()
	at := strings.LastIndex(sent, cleared)
	if at < 0 {
		return ""
	}
	return unseen.ReplaceAllString(moves.ReplaceAllString(sent[at:], " "), "")
}

// sees waits until the screen matches all patterns.
func (p *person) sees(patterns ...string) {
	p.Helper()
	defer func() {
		if p.Failed() {
			p.Logf("the screen shows\n%s", p.shows())
		}
	}()
	p.Until("the screen shows "+strings.Join(patterns, " and "), func() bool {
		p.press("\f") // draw all anew
		text := p.shows()
		for _, pattern := range patterns {
			if !regexp.MustCompile("(?m)" + pattern).MatchString(text) {
				return false
			}
		}
		return true
	})
}

// leaves waits for the end, and returns the exit code; the terminal is as it was then.
func (p *person) leaves() int {
	p.Helper()
	_ = p.cmd.Wait() // its code says how it ended
	modes, err := unix.IoctlGetTermios(int(p.t.end.Fd()), unix.TCGETS)
	if err != nil {
		p.Fatal(err)
	}
	if !reflect.DeepEqual(modes, p.t.modes) {
		p.Errorf("the terminal has the modes %+v, and had %+v", modes, p.t.modes)
	}
	p.t.end.Close()
	<-p.read
	const altScreen, cursor = "\x1b[?1049", "\x1b[?25"
	for _, mode := range []string{altScreen, cursor} {
		sent := p.sent.String()
		if at := strings.LastIndex(sent, mode); at < 0 || (sent[at+len(mode)] == 'h') == (mode == altScreen) {
			p.Errorf("the terminal is left in %q: %q", mode, sent)
		}
	}
	return p.cmd.ProcessState.ExitCode()
}

// TestReplayFillsTheScreen checks that a person who has only the screen finds what failed, why, and
// on which node it ran. The terminal is restored afterwards, also when the process is told to end.
func TestReplayFillsTheScreen(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Dev("--name", "here")
	if r := p.Try("run", "--wait", "--retries", "1", "--shell", "echo no room >&2; exit 3"); r.Code != 3 {
		t.Fatalf("%+v", r)
	}
	failed := p.Run("task", "ls", "--state", "error", "--names")
	widths := []uint16{80}
	if *harness.Long {
		widths = append(widths, 200)
	}
	for _, columns := range widths {
		who := replays(p, columns, columns/4+4)
		who.sees("before the span, which goes to #[0-9]+", "ls the commands|lists the commands", "node.registered +node here")
		who.press("bstate error\r")
		who.sees("^1 set, 1 hit", "^b 1  state error  1 hit")
		who.press("c")
		who.sees("attempt.failed +task …"+failed[len(failed)-7:], "~ state: running -> error", "attempt 2; exit: .*", "~ queue default: running 1 -> 0", "- node here owes on task")
		who.press("otask " + failed + "\r")
		who.press("btype attempt.started\r")
		who.press("C")
		who.sees("attempt.started", "~ state: pending -> running", "^.*here yes, runs 0 of [0-9]+ <-", "hits: 1 behind, 0 ahead")
		who.press("k")
		who.sees("--k; Esc closes", "task.submitted task "+failed)
		who.press("\r")
		who.press("/nowhere\r")
		who.sees("no message on that side has this text")
		who.press("S")
		who.sees("task.due task ")
		who.press("q")
		if code := who.leaves(); code != 0 {
			t.Errorf("it ended with code %d: %q", code, who.sent.String())
		}
	}
	who := replays(p, 80, 24)
	who.sees("before the span")
	if err := who.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := who.leaves(); code <= 0 {
		t.Errorf("told to end, it ended with code %d", code)
	}
	if seen := onTerminal(p, "replay", "-c", "s"); !strings.HasPrefix(seen, "#1 ") {
		t.Errorf("with commands the screen is filled: %q", seen)
	}
}
