package promises

import (
	"io"
	"millrace/integration/harness"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a terminal of a given size, as a person has it: keys go into its screen, and output
// comes from there.
type terminal struct {
	screen, end *os.File // end is that of the programs
	modes       *unix.Termios
}

func newTerminal(p *harness.Place, columns, lines uint16) *terminal {
	p.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		p.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		p.Fatal(err)
	}
	end, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.Fatal(err)
	}
	t := &terminal{screen: screen, end: end}
	p.Cleanup(func() { end.Close() })
	if err := unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns}); err != nil {
		p.Fatal(err)
	}
	if t.modes, err = unix.IoctlGetTermios(int(end.Fd()), unix.TCGETS); err != nil {
		p.Fatal(err)
	}
	return t
}

// start starts a command of millrace on the terminal.
func (t *terminal) start(p *harness.Place, args ...string) *exec.Cmd {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), harness.Binary(p), args...)
	cmd.Dir, cmd.Env = p.Dir, append(p.CommandEnv(), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.end, t.end, t.end
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	return cmd
}

// onTerminal runs a command of millrace on a terminal of its own, and returns all that the terminal
// received.
func onTerminal(p *harness.Place, args ...string) string {
	p.Helper()
	t := newTerminal(p, 0, 0)
	cmd := t.start(p, args...)
	t.end.Close()
	// It ends with an error when the last process has closed the terminal.
	seen, _ := io.ReadAll(t.screen)
	_ = cmd.Wait()
	return strings.ReplaceAll(string(seen), "\r\n", "\n")
}

// TestTerminalIsNotObeyed checks that the output of a task and the message of its failure reach a
// terminal only as text and colours. Files and pipes get them unchanged.
func TestTerminalIsNotObeyed(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Dev()
	evil := "written over\ra\x1b]52;c;ZXZpbA==\a\x1b]0;title\ab\x1b[2J\x1b[1;1Hc\x1b[31mdX\u009b2J"
	const shown = "abc\x1b[31mdX·2J\x1b[0m\n" // what a terminal would still show
	p.Write("evil", evil+"\n")
	shell := "cat " + p.Path("evil") + `; printf '{"type":"ERROR","key":"'$MILLRACE_KEY'","payload":"\u001b]0;title\u0007bad\u001b[2J"}\n'; exit 1`
	id := p.Run("run", "--shell", shell)
	p.Try("task", "wait", id)
	if got := p.Run("task", "logs", id); !strings.HasPrefix(got, evil+"\n") {
		t.Errorf("a pipe gets %q, want %q", got, evil)
	}
	for _, args := range [][]string{{"task", "logs", id}, {"run", "--follow", "--shell", shell}, {"task", "show", id}, {"task", "ls"}, {"task", "wait", id}} {
		seen := onTerminal(p, args...)
		if args[1] != "show" && args[1] != "ls" && args[1] != "wait" && !strings.Contains(seen, shown) {
			t.Errorf("%v: a terminal is sent %q, want %q in it", args, seen, shown)
		}
		seen = strings.ReplaceAll(seen, "\r\x1b[K", "") // the line about the progress
		for _, forbidden := range []string{"\x1b]", "\a", "\x1b[2J", "\x1b[1;1H", "\r", "\u009b"} {
			if strings.Contains(seen, forbidden) {
				t.Errorf("%v: a terminal is sent %q in %q", args, forbidden, seen)
			}
		}
	}
}
