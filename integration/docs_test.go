package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The pages show commands in blocks marked sh. Those of millrace are typed here
// in the order of the page, and must end with code 0, or N where "# exit N"
// stands behind them. What a line for the nats command line names must exist,
// and the request or job that it sends must be a good one.
func TestDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append([]string{"../README.md"}, pages...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		typed := commandsOf(string(text))
		if len(typed) == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 2*time.Second)
			p.linkExamples()
			dev := p.dev("--name", "vm", "--grace", "200ms") // as the pages call it; one may leave something that runs
			p.setenv("NATS_URL", p.url)
			names := p.namesOnServer()
			for _, c := range typed {
				switch {
				case strings.HasPrefix(c.text, "nats "):
					for _, unknown := range names.unknownTo(c.text) {
						t.Errorf("line %d: %s\nthere is no %s", c.line, c.text, unknown)
					}
					names.send(c)
				case serves.MatchString(c.text):
					p.typeLine(c, c.text+" --help") // refuses a flag that is not there
				case goesOn.MatchString(c.text) && !strings.Contains(c.text, " --no-follow"):
					p.typeEndless(c)
				default:
					p.typeLine(c, c.text)
				}
			}
			dev.stop()
		})
	}
}

var (
	// serves matches commands that start processes. That they do is what the
	// other tests of this package are about, and the benchmark's own.
	serves = regexp.MustCompile(`^millrace (dev|server|worker|demo|bench|chaos)\b[^|;&]*$`)
	// goesOn matches commands that end when somebody stops them.
	goesOn = regexp.MustCompile(`^millrace (events tail|task ls\b.* (-w|--watch)\b)`)
)

// typed is a command on a page.
type typed struct {
	line int
	text string
	exit int
}

var exitComment = regexp.MustCompile(`\s+# exit (\d+)\b.*$`)

// commandsOf finds the commands of millrace and nats in the sh blocks of a page.
func commandsOf(page string) []typed {
	var found []typed
	fenced, ours, whole, number := false, false, "", 0
	for line := range strings.Lines(page) {
		number++
		line = strings.TrimRight(line, " \n")
		if mark, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			fenced = !fenced
			ours, whole = fenced && mark == "sh", ""
			continue
		}
		if !ours {
			continue
		}
		if head, ok := strings.CutSuffix(line, `\`); ok { // it goes on in the next line
			whole += head
			continue
		}
		line, whole = strings.TrimSpace(whole+line), ""
		c := typed{line: number, text: strings.Replace(line, "go run ./cmd/millrace ", "millrace ", 1)}
		if m := exitComment.FindStringSubmatch(c.text); m != nil {
			c.exit, _ = strconv.Atoi(m[1]) // they are digits
			c.text = exitComment.ReplaceAllString(c.text, "")
		}
		c.text, _, _ = strings.Cut(c.text, "  # ")
		if strings.HasPrefix(c.text, "millrace ") || strings.HasPrefix(c.text, "nats ") {
			found = append(found, c)
		}
	}
	return found
}

// linkExamples makes the files of the repository that pages name reachable, in
// a folder where commands may write.
func (p *place) linkExamples() {
	p.Helper()
	examples, err := filepath.Abs("../examples")
	if err == nil {
		err = os.Symlink(examples, p.path("examples"))
	}
	if err != nil {
		p.Fatal(err)
	}
}

// shell makes a command of a line; it is the shell that reads it.
func (p *place) shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.WaitDelay = time.Second
	return cmd
}

func (p *place) typeLine(c typed, line string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	cmd := p.shell(ctx, line)
	out, err := cmd.CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) || ctx.Err() != nil {
		p.Fatalf("line %d: %s: %v\n%s", c.line, c.text, err, out)
	}
	if code := cmd.ProcessState.ExitCode(); code != c.exit {
		p.Errorf("line %d: %s\nexit code %d, want %d\n%s", c.line, c.text, code, c.exit, out)
	}
}

// typeEndless runs a command until it has said something, and stops it.
func (p *place) typeEndless(c typed) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	cmd := p.shell(ctx, "exec "+c.text)
	var out, errs buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	if !poll(patience/4, func() bool { return out.String() != "" }) {
		p.Errorf("line %d: %s\nit prints nothing; %s", c.line, c.text, errs.String())
	}
	_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
		p.Errorf("line %d: %s: %v\n%s", c.line, c.text, err, errs.String())
	}
}

// What finds mistakes on pages has to find them.
func TestDocsFindMistakes(t *testing.T) {
	t.Parallel()
	const page = "text\n```sh\nmillrace run -- false # exit 1\nmillrace task ls \\\n  --limit 3\nls\ngo run ./cmd/millrace demo\n" +
		"nats req mr.api.ada.task.list ''  # all\n```\n```\nmillrace nonsense\n```\n"
	var got bytes.Buffer
	for _, c := range commandsOf(page) {
		got.WriteString(strconv.Itoa(c.line) + " " + c.text + " " + strconv.Itoa(c.exit) + "\n")
	}
	want := "3 millrace run -- false 1\n5 millrace task ls   --limit 3 0\n7 millrace demo 0\n8 nats req mr.api.ada.task.list '' 0\n"
	if got.String() != want {
		t.Errorf("found\n%swant\n%s", got.String(), want)
	}

	p := newPlace(t, 2*time.Second)
	dev := p.dev("--name", "here")
	n := p.namesOnServer()
	for line, mistakes := range map[string]int{
		"nats stream info MR_LOG":                             0,
		"nats stream info MR_LOGS":                            1,
		"nats consumer info MR_LOG queue_default":             0,
		"nats consumer info MR_LOG queue_nobody":              1,
		"nats kv ls MR_DEFS":                                  0,
		"nats stream view KV_MR_NODES":                        0,
		`nats req mr.api.ada.task.submit '{"job":"hello"}'`:   0,
		"nats req mr.api.ada.task.sumbit ''":                  1,
		"nats sub 'mr.task.>'":                                0,
		"nats sub 'mr.api.ada.task.*'":                        0,
		"nats stream get MR_LOG --last-for mr.taks.01ABC":     1,
		"nats stream get MR_LOG --last-for mr.queue.d.5.01AB": 0,
	} {
		if got := n.unknownTo(line); len(got) != mistakes {
			t.Errorf("%s: found %v, want %d", line, got, mistakes)
		}
	}
	dev.stop()
}
