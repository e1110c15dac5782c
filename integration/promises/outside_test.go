package promises

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/integration/harness"
)

// replaceLine is the line by which README has a program in another module import Millrace.
var replaceLine = regexp.MustCompile(`(?m)^go mod edit -require (millrace@\S+) -replace millrace=\S+$`)

// A program in a module of its own, which imports Millrace as README says, submits and runs tasks
// on the `millrace dev` of its user without being told where that is. It links no command line.
func TestAProgramOutsideOfTheRepository(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	program := built(p, shop)
	linksNone(p, program, "cobra")
	dev := p.Dev("--name", "vm", "--queue", "default")
	dev.Until("others find it", func() bool { return strings.Contains(dev.Said.String(), "Millrace is ready") })
	millrace := p.Program
	p.Program, p.URL = program, "" // it must find the server by itself
	work := p.Start("work")
	for _, c := range []struct {
		what string
		want *regexp.Regexp
	}{
		{"order", regexp.MustCompile(`^01\w{24}: message of order 4711$`)},
		{"remind", regexp.MustCompile(`^01\w{24} is due in three days$`)},
	} {
		if out := p.Run(c.what, "4711"); !c.want.MatchString(out) {
			t.Errorf("shop %s says %q, want %s", c.what, out, c.want)
		}
	}
	work.Stop()

	p.Program = millrace
	if names := strings.Fields(p.Run("task", "ls", "--label", "order=4711", "--names", "--consistent")); len(names) != 2 {
		t.Errorf("the command line lists %q, want two tasks", names)
	}
	dev.Stop()
}

// The last part of the tutorial: a worker is killed while an order is shipped, and the next one goes on behind what was
// done. The tutorial's lines are those that the test types. Then the same program runs the recorded task again.
func TestAFunctionSurvivesKill(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"./shop work &", "./shop ship 4711 &", "kill -9 %1"} {
		if !strings.Contains(string(page), "\n"+line+"\n") {
			t.Errorf("docs/start.md does not have the line %s", line)
		}
	}
	p := harness.New(t, 2*time.Second)
	program := built(p, shop)
	dev := p.Dev("--name", "vm", "--queue", "default")
	millrace := p.Program
	id := func() string {
		return strings.TrimSpace(p.Run("task", "ls", "--label", "order=4711", "--roots", "--names", "--consistent"))
	}
	p.Program = program
	work, ship := p.Start("work"), p.Start("ship", "4711")
	p.Program = millrace
	dev.Until("the order was charged", func() bool {
		of := id()
		return of != "" && strings.Contains(p.Run("task", "show", of), "charge")
	})
	work.Kill()
	p.Program = program
	work = p.Start("work")
	if code := ship.Wait(); code != 0 {
		t.Errorf("shop ship ends with %d", code)
	}
	work.Stop()
	p.Program = millrace
	if is := p.Run("task", "show", id(), "-o", "json"); !strings.Contains(is, "receipt of 4711, message of order 4711") {
		t.Errorf("the task is\n%s", is)
	}
	if n := strings.Count(p.Run("task", "logs", id()), "charging"); n != 1 {
		t.Errorf("it was charged %d times", n)
	}
	if out := p.Run("replay", "--with", program+" work"); out != "2 tasks as recorded" {
		t.Errorf("the replay says %q", out)
	}
	dev.Stop()
}

// A program outside that brings no server along links neither a NATS server nor a database. It learns
// whether somebody has named its server, so that it can refuse one in production that was only found.
func TestAProgramWithoutAServer(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	program := built(p, clerk)
	linksNone(p, program, "nats-server", "sqlite", "cobra")

	p.Dev("--name", "vm", "--queue", "default")
	url := p.URL
	p.Program, p.URL = program, "" // the server is only found
	p.Let("CLERK_ENV", "production")
	if r := p.Try("work"); r.Code != 1 || !strings.Contains(r.Errs, "which server?") {
		t.Errorf("a worker in production that nobody told its server: exit code %d\n%s", r.Code, r.Errs)
	}
	p.URL = url
	p.Start("work")
	if out := p.Run("submit"); out != "filed a letter" {
		t.Errorf("clerk submit says %q", out)
	}
}

// linksNone fails if a program links a module of some names.
func linksNone(p *harness.Place, program string, heavies ...string) {
	p.Helper()
	version, err := exec.CommandContext(p.Context(), "go", "version", "-m", program).CombinedOutput()
	if err != nil || !strings.Contains(string(version), "nats.go") {
		p.Fatalf("%v\n%s", err, version)
	}
	for _, heavy := range heavies {
		if strings.Contains(string(version), heavy) {
			p.Errorf("it links %s:\n%s", heavy, version)
		}
	}
}

// Programs outside, each built once.
var (
	shop  = outside("shop", "../../examples/shop/main.go", "../../examples/shop/web.go", "../../examples/shop/ship.go")
	clerk = outside("clerk", "testdata/clerk.go.source") // its file is no Go file here
)

func built(p *harness.Place, program func() (string, error)) string {
	p.Helper()
	path, err := program()
	if err != nil {
		p.Fatal(err)
	}
	return path
}

// outside builds a program of a module of its own, with some files. It downloads nothing.
func outside(name string, sources ...string) func() (program string, err error) {
	return sync.OnceValues(func() (string, error) { return buildOutside(name, sources) })
}

func buildOutside(name string, sources []string) (program string, err error) {
	if _, err := harness.Program(); err != nil { // makes ProgramDir
		return "", err
	}
	root, err := harness.Root()
	if err != nil {
		return "", err
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		return "", err
	}
	line := replaceLine.FindStringSubmatch(string(readme))
	if line == nil {
		return "", errors.New("README does not say how to import Millrace")
	}
	dir := filepath.Join(harness.ProgramDir, "outside-"+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	// The module's go.mod and go.sum already hold what `go mod tidy` would look up.
	for _, from := range append(sources, "../../go.mod", "../../go.sum") {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.TrimSuffix(filepath.Base(from), ".source")), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{
		{"mod", "edit", "-module", "example.test/" + name},
		{"mod", "edit", "-require", line[1], "-replace", "millrace=" + root},
		{"build", "-o", name, "."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod -buildvcs=false", "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, name), nil
}
