package promises

import (
	"bytes"
	"context"
	"errors"
	"millrace/integration/harness"
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

// The pages show commands in blocks marked sh. The test types those of millrace, and echo, in the
// order of the page; they must end with code 0, or N if "# exit N" stands behind them. A request in
// a curl line must be answered. What a line for the nats command line names must exist, and the request or job
// that it sends must be valid. Without -long it types a few pages, which have each kind of line.
func TestDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append([]string{"../../README.md"}, pages...) // docs has one, too
	for _, page := range harness.Cases(t, pages, "README.md", "start.md", "http.md", "nats-cli.md", "schedules.md") {
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
			p := harness.New(t, 2*time.Second)
			linkExamples(p)
			dev := p.Dev("--name", "vm", "--grace", "200ms") // as the pages call it; one may leave something that runs
			p.Let("NATS_URL", p.URL)
			names, curls := namesOnServer(p), curlsOf(p)
			for _, c := range typed {
				if other := others.FindStringSubmatch(c.text); other != nil {
					harness.Tools(t, other[1])
				}
				switch {
				case strings.HasPrefix(c.text, "curl "):
					curls.send(c)
				case strings.HasPrefix(c.text, "nats "):
					for _, unknown := range names.unknownTo(c.text) {
						t.Errorf("line %d: %s\nthere is no %s", c.line, c.text, unknown)
					}
					names.send(c)
				case serves.MatchString(c.text):
					typeLine(p, c, c.text+" --help") // refuses a flag that is not there
				case goesOn.MatchString(c.text) && !strings.Contains(c.text, " --no-follow"):
					typeEndless(p, c)
				default:
					typeLine(p, c, c.text)
				}
			}
			dev.Stop()
		})
	}
}

var (
	// serves matches commands that start processes. The other tests of this package, and those of
	// the benchmark, check that these work.
	serves = regexp.MustCompile(`^millrace (dev|server|worker|demo|bench|chaos)\b[^|;&]*$`)
	// others matches commands that are programs of their own.
	others = regexp.MustCompile(`^millrace (bench|chaos)\b`)
	// goesOn matches commands that run until the user stops them.
	goesOn = regexp.MustCompile(`^millrace (events tail|task ls\b.* (-w|--watch)\b)`)
)

// typed is a command on a page.
type typed struct {
	line int
	text string
	exit int
}

var exitComment = regexp.MustCompile(`\s+# exit (\d+)\b.*$`)

// typedHere matches commands that the test types, or sends; echo is for files that a task reads.
var typedHere = regexp.MustCompile(`^(millrace|nats|curl|echo) `)

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
		if typedHere.MatchString(c.text) {
			found = append(found, c)
		}
	}
	return found
}

// linkExamples makes the files of the repository that pages name reachable, in
// a folder where commands may write.
func linkExamples(p *harness.Place) {
	p.Helper()
	examples, err := filepath.Abs("../../examples")
	if err == nil {
		err = os.Symlink(examples, p.Path("examples"))
	}
	if err != nil {
		p.Fatal(err)
	}
}

// shell makes a command of a line; it is the shell that reads it.
func shellIn(p *harness.Place, ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	cmd.WaitDelay = time.Second
	return cmd
}

func typeLine(p *harness.Place, c typed, line string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), harness.Patience)
	defer cancel()
	cmd := shellIn(p, ctx, line)
	out, err := cmd.CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) || ctx.Err() != nil {
		p.Fatalf("line %d: %s: %v\n%s", c.line, c.text, err, out)
	}
	if code := cmd.ProcessState.ExitCode(); code != c.exit {
		p.Errorf("line %d: %s\nexit code %d, want %d\n%s", c.line, c.text, code, c.exit, out)
	}
}

// typeEndless runs a command until it has said something, and stops it.
func typeEndless(p *harness.Place, c typed) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), harness.Patience)
	defer cancel()
	cmd := shellIn(p, ctx, "exec "+c.text)
	var out, errs harness.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	if !harness.Poll(harness.Patience/4, func() bool { return out.String() != "" }) {
		p.Errorf("line %d: %s\nit prints nothing; %s", c.line, c.text, errs.String())
	}
	_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
		p.Errorf("line %d: %s: %v\n%s", c.line, c.text, err, errs.String())
	}
}

// The checks must find the mistakes on a page that has some.
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

	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--name", "here")
	n := namesOnServer(p)
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
	dev.Stop()
}
