package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHousePlan(t *testing.T) {
	pkgs, err := thisModule()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations(pkgs) {
		t.Error(v)
	}
	there := map[string]bool{}
	for _, p := range pkgs {
		there[p.path] = true
		for _, f := range p.files {
			there[p.path+"/"+f.name] = true
		}
	}
	for row := range plan {
		if !there[strings.TrimSuffix(row, "/...")] {
			t.Errorf("the house plan has a row for %s, which does not exist", row)
		}
	}
	for _, room := range rooms {
		if !there[room] {
			t.Errorf("the house plan has a room %s, which does not exist", room)
		}
	}
	reads := map[string]bool{} // rows of clocks that say something
	for _, p := range pkgs {
		for _, f := range p.files {
			if f.test || len(f.takes("time", clockReads...)) == 0 {
				continue
			}
			if own := p.path + "/" + f.name; clocks[own] != "" {
				reads[own] = true
			} else {
				reads[p.path] = true
			}
		}
	}
	for row := range clocks {
		if !reads[row] {
			t.Errorf("the table of clocks has a row for %s, which reads none", row)
		}
	}
	for name := range exceptions {
		if !there[name] {
			t.Errorf("there is an exception for %s, which does not exist", name)
		}
	}
}

// No package has more files than a reader can keep in mind.
func TestPackagesAreSmall(t *testing.T) {
	pkgs, err := thisModule()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range checkSizes(pkgs, grown) {
		t.Error(v)
	}
	with := func(path string, files, tests int) pkg {
		p := pkg{path: path}
		for i := range files + tests {
			p.files = append(p.files, file{test: i >= files})
		}
		return p
	}
	for _, c := range []struct {
		name string
		p    pkg
		list map[string]int
		want string // part of the only finding; "" for none
	}{
		{"small, with many tests", with("a", most, 9), nil, ""},
		{"large", with("a", most+1, 0), nil, "at most"},
		{"as large as it was", with("a", 40, 0), map[string]int{"a": 40}, ""},
		{"larger than it was", with("a", 41, 0), map[string]int{"a": 40}, "may only shrink"},
		{"smaller than it was", with("a", 39, 0), map[string]int{"a": 40}, "has shrunk"},
		{"small at last", with("a", most, 0), map[string]int{"a": 40}, "off the list"},
		{"gone", with("a", 1, 0), map[string]int{"b": 40}, "does not exist"},
	} {
		found := checkSizes([]pkg{c.p}, c.list)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
			t.Errorf("%s: found %q, want %q", c.name, found, c.want)
		}
	}
}

// A rule that finds nothing may be no rule at all: each must find the violation planted for it.
func TestHousePlanFindsViolations(t *testing.T) {
	for _, c := range []struct {
		name, pkg, file, source string
		want                    string // part of the only violation; "" for none
	}{
		{"down", "events", "a.go", `import "millrace/task"; var _ task.ID`, ""},
		{"up", "task", "a.go", `import "millrace/events"; var _ events.Fact`, "imports point down"},
		{"sideways", "scheduler", "a.go", `import "millrace/worker"; var _ worker.Config`, "imports point down"},
		{"a loop that knows its adapter", "worker", "a.go", `import "millrace/events/jet"; var _ jet.Store`, "imports point down"},
		{"no row", "queue", "a.go", ``, "no row"},
		{"the top", "cmd/millrace", "a.go", `import "millrace/service/answers"; var _ api.Service`, ""},
		{"the workshop in the product", "cmd/millrace", "a.go", `import "millrace/integration/bench"; var _ bench.Config`, "imports point down"},
		{"the workshop in its own program", "cmd/millrace-bench", "a.go", `import "millrace/integration/bench"; var _ bench.Config`, ""},
		{"a test up", "task", "a_test.go", `import "millrace/events"; var _ events.Fact`, "imports point down"},
		{"a test of the suite", "events/jet", "a_test.go", `import "millrace/events/logtest"; var _ = logtest.Run`, ""},
		{"a test of everything", "integration/promises", "a_test.go", `import "millrace/events/jet"; var _ jet.Store`, ""},

		{"a port", "worker", "a.go", `type Port interface{ M0(); M1(); M2(); M3(); M4(); M5(); M6(); M7(); M8(); M9(); M10(); M11() }`, ""},
		{"a wide port", "worker", "a.go", `type Port interface{ M0(); M1(); M2(); M3(); M4(); M5(); M6(); M7(); M8(); M9(); M10(); M11(); M12() }`, "worker.Port has 13 methods"},
		{"a port of ports", "worker", "a.go", `type In interface{ M0(); M1(); M2(); M3(); M4(); M5(); M6(); M7(); M8(); M9(); M10(); M11() }; type Port interface{ In; error }`, "worker.Port has 13 methods"},
		{"a wide one in a test", "worker", "a_test.go", `type Port interface{ M0(); M1(); M2(); M3(); M4(); M5(); M6(); M7(); M8(); M9(); M10(); M11(); M12() }`, ""},

		{"a conflict in a loop", "scheduler", "a.go", `import "millrace/events"; var _ = events.ErrConflict`, "decide on an events.Chain"},
		{"a conflict in the adapter", "events/jet/request", "errors.go", `import "millrace/events"; var _ = events.ErrConflict`, ""},
		{"a conflict in a test", "scheduler", "a_test.go", `import "millrace/events"; var _ = events.ErrConflict`, ""},

		{"a list of consumers", "events/jet", "a.go", `func f() { s.log.ConsumerNames(ctx) }`, "nobody lists all consumers"},
		{"a request for a list", "events/jet", "a.go", `const all = "$JS.API.CONSUMER.LIST." + name`, "nobody lists all consumers"},
		{"a list in a test", "events/jet", "a_test.go", `func f() { s.log.ListConsumers(ctx) }`, ""},
		{"one consumer", "events/jet", "a.go", `func f() { s.log.Consumer(ctx, "a") }`, ""},

		{"NATS in jet", "events/jet", "a.go", `import "github.com/nats-io/nats.go"; var _ = nats.Connect`, ""},
		{"NATS in worker", "worker", "a.go", `import "github.com/nats-io/nats.go"; var _ *nats.Conn`, "speak to NATS"},
		{"a room above another", "internal/cli/settings", "a.go", `import "millrace/internal/cli/term"; var _ term.Fault`, ""},
		{"a room below another", "internal/cli/term", "a.go", `import "millrace/internal/cli/settings"; var _ typed.Span`, "imports point down"},
		{"a room and the hall", "internal/cli/term", "a.go", `import main "millrace/cmd/millrace"; var _ main.App`, "imports point down"},
		{"a room that nobody knows", "internal/cli/cellar", "a.go", `import "time"; var _ time.Time`, "no row"},
		{"flags in a room", "internal/cli/settings", "a.go", `import "github.com/spf13/cobra"; var _ cobra.Command`, ""},
		{"JetStream in a room", "internal/cli/settings", "a.go", `import "github.com/nats-io/nats.go/jetstream"; var _ = jetstream.New`, "speak to NATS"},
		{"JetStream in cmd", "cmd/millrace", "a.go", `import "github.com/nats-io/nats.go/jetstream"; var _ = jetstream.New`, "speak to NATS"},
		{"a connection in cmd", "cmd/millrace", "a.go", `import "github.com/nats-io/nats.go"; var _ *nats.Conn`, ""},
		{"a dial in cmd", "cmd/millrace", "a.go", `import n "github.com/nats-io/nats.go"; var _ = n.Connect`, "nats.Connect may not be used"},
		{"errors in client", "service/client", "client.go", `import "github.com/nats-io/nats.go"; var _ = nats.ErrTimeout`, "nats.ErrTimeout may not be used"},
		{"errors in target", "service/client", "target.go", `import "github.com/nats-io/nats.go"; var _ = nats.ErrTimeout`, ""},
		{"a server in api", "service/answers", "a.go", `import "github.com/nats-io/nats-server/v2/server"; var _ = server.New`, "only events/jet/embed knows"},
		{"a server in jet", "events/jet", "a.go", `import "github.com/nats-io/nats-server/v2/server"; var _ = server.New`, "only events/jet/embed knows"},
		{"a server in its place", "events/jet/embed", "a.go", `import "github.com/nats-io/nats-server/v2/server"; var _ = server.New`, ""},
		{"contexts by way of the server", "service/client", "a.go", `import "github.com/nats-io/jsm.go/natscontext"; var _ = natscontext.New`, "links the NATS server"},
		{"Prometheus in metrics", "internal/metrics", "a.go", `import "github.com/prometheus/client_golang/prometheus"; var _ prometheus.Metric`, "only internal/observe"},
		{"Prometheus in monitor", "internal/observe", "a.go", `import "github.com/prometheus/client_golang/prometheus"; var _ prometheus.Metric`, ""},
		{"a clock in metrics", "internal/metrics", "a.go", `import "time"; var _ = time.Now()`, "time is an argument"},
		{"SQL in scheduler", "scheduler", "a.go", `import "database/sql"; var _ *sql.DB`, "only projections"},
		{"cobra in client", "service/client", "a.go", `import "github.com/spf13/cobra"; var _ cobra.Command`, "flags belong to the command line"},

		{"exec in worker", "worker", "a.go", `import "os/exec"; var _ = exec.Command`, "starts processes"},
		{"exec in its place", "worker/process", "a.go", `import "os/exec"; var _ = exec.Command`, ""},
		{"exec in a test", "integration/promises", "a_test.go", `import "os/exec"; var _ = exec.Command`, ""},
		{"fork in jet", "events/jet", "a.go", `import "syscall"; var _ = syscall.ForkExec`, "starts processes"},
		{"a start in client", "service/client", "a.go", `import "os"; var _ = os.StartProcess`, "starts processes"},
		{"a program in place of another", "internal/cli/connect", "tools.go", `import "syscall"; var _ = syscall.Exec`, ""},
		{"the floor of bench", "integration/bench", "a.go", `import "os"; var _ = os.StartProcess`, ""},

		{"a file of its own", "events/jet/embed", "a.go", `import "os"; var _ = os.Rename`, "puts a file into its place"},
		{"a file in its place", "internal/files", "a.go", `import "os"; var _ = os.Rename`, ""},

		{"a birth at the desk", "events/submit", "a.go", `import "millrace/task/birth"; var _ = birth.Births`, ""},
		{"a second door", "scheduler", "a.go", `import "millrace/task/birth"; var _ = birth.Births`, "only the desk makes births"},
		{"a birth that is tried", "projections/view", "a.go", `import "millrace/task/birth"; var _ = birth.Of`, ""},

		{"a clock in task", "task", "a.go", `import "time"; var _ = time.Now`, "time is an argument"},
		{"a clock by another name", "task/node", "a.go", `import clock "time"; var _ = clock.Since`, "time is an argument"},
		{"a timer in events", "events", "a.go", `import "time"; var _ = time.AfterFunc`, "time is an argument"},
		{"a duration in task", "task", "a.go", `import "time"; var _ = time.Second`, ""},
		{"a clock in a loop", "scheduler", "a.go", `import "time"; var _ = time.Now`, ""},
		{"a clock in a client", "service/client", "a.go", `import "time"; var _ = time.Now`, "the log's time"},
		{"a clock in a command", "cmd/millrace", "a.go", `import clock "time"; var _ = clock.Until`, "the log's time"},
		{"a stopwatch in a command", "internal/cli/verb", "run.go", `import "time"; var _ = time.Since`, ""},
		{"a clock in a test", "service/client", "a_test.go", `import "time"; var _ = time.Now`, ""},
		{"chance in task", "task", "a.go", `import "math/rand/v2"; var _ = rand.N[int]`, "chance is an argument"},
		{"secret chance in node", "task/node", "a.go", `import "crypto/rand"; var _ = rand.Text`, "chance is an argument"},
		{"a goroutine in task", "task", "a.go", `func f() { go f() }`, "starts a goroutine"},
		{"a file in task", "task", "a.go", `import "os"; var _ = os.Getenv`, "does no I/O"},

		{"a sleep", "events/jet", "a_test.go", `import "time"; func f() { time.Sleep(time.Second) }`, "a test sleeps"},
		{"a sleep in a bubble", "events/jet", "a_test.go", `import ("testing/synctest"; "time"); var _ = synctest.Test; func f() { time.Sleep(1) }`, ""},
		{"a skip", "events/jet", "a_test.go", `import "testing"; func TestX(t *testing.T) { t.Skip("no docker") }`, "t.Skip"},
		{"a skip in a benchmark", "events/jet", "a_test.go", `import "testing"; func BenchmarkX(b *testing.B) { b.SkipNow() }`, "b.SkipNow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := readFile(c.file, []byte("package x\n"+c.source))
			if err != nil {
				t.Fatal(err)
			}
			found := violations([]pkg{{path: c.pkg, files: []file{f}}})
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %q, want nothing", found)
			case c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)):
				t.Errorf("found %q, want one violation with %q", found, c.want)
			}
		})
	}
}

// TestNoPathsOfThisMachine finds sources and pages that only work where they were written.
func TestNoPathsOfThisMachine(t *testing.T) {
	dir := root(t)
	theirs := foreignPaths(dir)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it was removed meanwhile
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir(), !written(d.Name()):
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for _, p := range findPaths(string(body), theirs) {
			t.Errorf("%s holds %s, a path of the machine on which it was written", path, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoPathsFindsThem(t *testing.T) {
	theirs := []string{"/srv/src/millrace/"}
	for text, want := range map[string]int{
		"see /srv/src/millrace/docs": 1,
		"see docs":                   0,
		"/srv/src/millracer/":        0,
	} {
		if found := findPaths(text, theirs); len(found) != want {
			t.Errorf("found %q in %q, want %d", found, text, want)
		}
	}
}

// foreignPaths are paths that mean nothing on another machine.
func foreignPaths(module string) []string {
	paths := []string{module + "/", "/" + "root" + "/", "/" + "work" + "/"}
	if home, err := os.UserHomeDir(); err == nil && strings.Count(home, "/") > 1 {
		paths = append(paths, home+"/")
	}
	return paths
}

func findPaths(text string, paths []string) []string {
	var found []string
	for _, p := range paths {
		if strings.Contains(text, p) {
			found = append(found, p)
		}
	}
	return found
}

// written tells whether people write files of that name.
func written(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".md", ".yml", ".yaml", ".json", ".mod", ".txt", ".html":
		return true
	}
	return name == "run"
}
