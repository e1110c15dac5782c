package house

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// module is the prefix of the import paths of this module.
const module = "millrace/"

// plan says which packages of this module each package may import. A new package needs a row:
// without one the test fails.
var plan = map[string][]string{
	// Packages below task, and packages around it: importers of task may import all of them. Only
	// the tests of task import those around it; Go refuses such an import elsewhere as a cycle.
	"task":             {"task/breaker", "task/job", "task/limit", "task/param", "task/queue", "task/reason", "task/value", "task/where", "task/birth", "task/choice", "task/duties", "task/family", "task/unique"},
	"task/birth":       {"task"},
	"task/choice":      {"task"},
	"task/duties":      {"task"},
	"task/family":      {"task"},
	"task/unique":      {"task"},
	"task/tasktest":    {"task"},
	"task/param":       {"task/value"},
	"task/value":       {},
	"task/where":       {"task/value"},
	"task/limit":       {"task/value", "task/where"},
	"task/queue":       {"task/limit", "task/value"},
	"task/reason":      {},
	"task/breaker":     {"task/value"},
	"task/job":         {"task/breaker", "task/limit", "task/param", "task/reason", "task/value", "task/where"},
	"near":             {},
	"query":            {"near", "task", "view"},
	"internal/form":    {},
	"internal/heap":    {},
	"internal/paged":   {},
	"internal/corpus":  {},
	"internal/testkit": {},
	"task/jobfile":     {"internal/form", "near", "task", "task/schedule"},
	"task/schedule":    {"internal/heap", "task", "task/definition"},
	"task/quota":       {"internal/heap", "task"},
	"task/output":      {"task"},
	"task/definition":  {"task"},
	"node":             {"task"}, // for the form of names
	"files":            {},
	"files/tree":       {"files"},

	"events":         {"internal/form", "task", "task/definition", "node"},
	"events/logtest": {"internal/corpus", "internal/testkit", "events", "task", "task/definition", "node"},

	"verify/book":         {"events", "node", "task"},
	"verify/ticks":        {"verify/book", "events", "task", "task/definition", "task/schedule"},
	"verify/thin":         {"internal/form", "task"},
	"verify/past":         {"verify/thin", "events", "node", "task"},
	"verify/limits":       {"verify/book", "verify/past", "verify/thin", "events", "node", "task", "task/quota"},
	"verify":              {"verify/book", "verify/limits", "verify/ticks", "verify/thin", "verify/past", "internal/form", "events", "task", "task/definition", "task/quota", "task/schedule", "node"},
	"replay":              {"internal/form", "internal/heap", "near", "verify", "view", "events", "task", "task/definition", "task/quota", "node"},
	"whatif":              {"internal/heap", "near", "view", "verify", "incident", "events", "task", "task/breaker", "task/limit", "task/definition", "task/schedule", "node"}, // incident for its tests alone
	"spans":               {"view", "events", "task"},
	"telemetry":           {"spans", "worker", "telemetry/otlp", "events", "task"}, // telemetry/otlp for its tests alone
	"telemetry/otlp":      {},
	"view":                {"events", "task", "task/definition", "task/quota", "task/schedule", "node"},
	"incident":            {"events", "node", "task", "task/definition", "task/schedule"},                                                     // node for its tests alone
	"projections":         {"internal/form", "internal/paged", "view", "events", "task", "task/definition", "task/quota", "node", "incident"}, // incident for its tests alone
	"metrics":             {"events", "task", "task/definition", "task/quota", "node"},
	"desk":                {"events", "node", "task", "task/definition", "task/schedule"},
	"scheduler/turns":     {"task"},
	"scheduler/admission": {"events", "task", "task/quota", "task/where"},
	"scheduler":           {"scheduler/turns", "scheduler/admission", "desk", "internal/heap", "events", "task", "task/definition", "task/quota", "task/schedule", "node", "logclock"},
	"worker/claim":        {"events", "task", "task/definition", "task/schedule", "node"},
	"worker":              {"worker/claim", "events", "task", "task/definition", "task/output", "task/schedule", "node", "private"},
	"ipc":                 {"task/value"},
	"private":             {},
	"retention":           {"task"},
	"logclock":            {},
	"local":               {"private"},

	"monitor":              {"metrics", "events", "task", "task/definition", "task/schedule", "node"},
	"worker/process":       {"worker/process/child", "worker", "ipc", "task", "task/output", "private"},
	"worker/process/child": {"ipc", "task", "private"},

	"worker/filecache": {"worker", "files", "files/tree", "task", "task/output", "private"},
	"jet/natscontext":  {"local", "task/value"},
	"jet/jettest":      {"jet", "jet/embed", "jet/streams"},
	"jet/wire":         {"events", "task", "task/definition", "node"},
	"jet/link":         {"jet/wire", "events", "logclock"},
	"jet/publish":      {"jet/link", "events", "jet/reading", "jet/streams", "jet/wire", "task"}, // all but the first two for its tests alone
	"jet/pull":         {"jet/wire"},
	"jet/floor":        {"jet/publish", "jet/pull", "jet/streams", "jet/wire"},                                            // for the benchmark
	"jet/contents":     {"jet/link", "jet/wire", "events", "files", "files/tree", "task", "jet", "jet/streams"},           // the last two for its tests alone
	"jet/presence":     {"jet/link", "jet/pull", "jet/roles", "jet/streams", "jet/wire", "events", "node", "task", "jet"}, // jet for its tests alone
	"jet/outputs":      {"jet/link", "jet/wire", "events", "task", "task/output"},
	"jet/roles":        {"jet/wire", "events", "node", "task"},
	"jet/streams":      {"jet/link", "jet/wire", "events"},
	"jet/reading":      {"jet/link", "jet/wire", "events", "node", "task"},
	"jet/definitions":  {"jet/link", "jet/reading", "jet/roles", "jet/wire", "events", "files", "task", "task/definition", "task/schedule", "jet", "jet/streams"}, // jet and jet/streams for its tests alone
	"jet/rig":          {"jet/embed", "internal/testkit", "events", "files/tree", "task"},
	"jet/embed":        {"jet", "jet/streams", "jet/natscontext", "jet/wire", "local", "events", "private"}, // jet and jet/streams for its tests alone: those of jet import it, so that Go refuses the rest
	"jet":              {"jet/natscontext", "jet/wire", "jet/link", "jet/publish", "jet/pull", "jet/contents", "jet/presence", "jet/roles", "jet/streams", "jet/reading", "jet/definitions", "jet/outputs", "events", "files", "files/tree", "task", "task/definition", "task/output", "task/schedule", "node", "logclock"},
	"client":           {"internal/form", "query", "view", "desk", "jet", "jet/contents", "jet/roles", "jet/definitions", "jet/streams", "jet/outputs", "jet/natscontext", "local", "events", "files", "files/tree", "task", "task/definition", "task/output", "task/quota", "task/schedule", "node"}, // jet/streams for its tests alone
	"api":              {"client", "query", "view", "verify", "replay", "whatif", "projections", "telemetry", "task/jobfile", "jet", "jet/contents", "jet/link", "jet/roles", "jet/definitions", "events", "files", "files/tree", "task", "task/definition", "task/output", "task/quota", "task/schedule", "node"},
	"httpapi":          {"api", "client", "near", "whatif", "metrics", "view", "jet", "jet/roles", "jet/definitions", "jet/streams", "jet/embed", "projections", "events", "events/logtest", "task", "task/definition", "task/output", "node"}, // jet/embed, jet/streams, projections and whatif for its tests alone
	"clients/millrace": {"ipc"},

	"cmd/millrace":             anything,
	"cmd/millrace/...":         anything, // its rooms
	"cmd/millrace/bench":       anything,
	"cmd/millrace/export":      {},
	"cmd/millrace/load":        {},
	"cmd/millrace/screen":      {},
	"cmd/millrace/chaos":       anything,
	"cmd/millrace/chaos/proxy": {},

	"integration":       {},
	"integration/house": {},
	// The harness of the tests below.
	"integration/place":      {"client", "events", "internal/testkit", "jet/embed", "node", "task"},
	"integration/deaths":     {},
	"integration/faces":      {},
	"integration/nodes":      {},
	"integration/once":       {},
	"integration/programs":   {},
	"integration/rights":     {},
	"integration/simulation": {},

	// The programs of users import only the client side of Millrace.
	"examples":               {},
	"examples/crawl":         {"examples/crawl/crawler"},
	"examples/crawl/crawler": {"examples/crawl/site"},
	"examples/crawl/site":    {},
	"examples/handler":       {"client", "jet", "jet/streams", "jet/embed", "task", "task/output", "worker"},
	"examples/outbox":        {"client", "jet", "jet/streams", "task"}, // jet for its test
	"examples/shop":          {"client", "jet", "jet/streams", "task", "task/output", "worker"},
}

// anything is the row of the packages that wire the rest.
var anything = []string{"*"}

// rooms are the parts of the command line, below cmd/millrace. Each may import those that stand
// before it.
var rooms = []string{"screen", "export", "exit", "term", "picture", "golden", "typed", "settings", "told", "reach", "garbage", "audit", "opened", "excerpt", "pages/ansi", "pages/assets", "pages/paramform", "pages/series", "pages", "serve", "certify", "bundles", "history", "stage", "debug", "incident", "nodes", "queues", "look", "follow", "records", "act", "submit", "definitions"}

// row is the row of the house plan for a package: its own, or that of its subtree.
func row(path string) (may []string, ok bool) {
	if may, ok = plan[path]; ok {
		return may, true
	}
	if room, below := strings.CutPrefix(path, "cmd/millrace/"); below && slices.Contains(rooms, room) {
		return plan["cmd/millrace/..."], true
	}
	return nil, false
}

// holds tells whether a list of packages has one, by its name or as part of a subtree:
// "cmd/millrace/...".
func holds(list []string, path string) bool {
	return slices.ContainsFunc(list, func(of string) bool {
		above, subtree := strings.CutSuffix(of, "/...")
		return of == path || subtree && (path == above || strings.HasPrefix(path, above+"/"))
	})
}

// testsMayImport are the packages that any test may use besides its package's own row.
var testsMayImport = []string{"events/logtest", "internal/corpus", "internal/testkit", "jet/embed", "jet/jettest", "jet/rig", "task/tasktest", "verify"}

// outsiders are imports that only some packages may have; of several rules the
// longest prefix counts.
var outsiders = []struct {
	prefix string
	may    []string // packages
	tests  []string // packages whose tests may, too
	why    string
}{
	{"github.com/nats-io/nats-server", []string{"jet/embed"}, []string{"jet", "jet/roles", "integration/..."}, "only jet/embed knows the NATS server, for programs that bring none do not link it"},
	{"github.com/nats-io/nats.go", []string{"jet", "jet/link", "jet/publish", "jet/pull", "jet/floor", "jet/contents", "jet/presence", "jet/roles", "jet/streams", "jet/reading", "jet/definitions", "jet/outputs", "jet/embed", "jet/jettest", "jet/rig", "jet/natscontext", "api", "integration/place"}, []string{"client", "cmd/millrace/...", "integration/..."}, "only jet and the service of api speak to NATS"},
	{"github.com/nats-io/jsm.go", nil, []string{"jet/natscontext"}, "it links the NATS server; jet/natscontext reads contexts"},
	{"github.com/nats-io/", []string{"jet", "jet/publish", "jet/natscontext"}, []string{"integration/..."}, "only jet knows the tools of NATS"},
	{"github.com/rs/zerolog", []string{"cmd/millrace/..."}, nil, "only cmd/millrace knows how log lines are written; all else takes a *slog.Logger"},
	{"github.com/prometheus/", []string{"monitor"}, nil, "only monitor speaks to Prometheus; what is counted is in metrics"},
	{"github.com/expr-lang/", []string{"replay"}, nil, "only replay knows the language of its breakpoints"},
	{"github.com/klauspost/", []string{"incident", "httpapi"}, nil, "only incident and httpapi know how what they write is packed"},
	{"github.com/minio/", []string{"jet/embed"}, nil, "only jet/embed knows in which form a NATS server keeps streams"},
	{"go.opentelemetry.io/", []string{"telemetry", "telemetry/otlp"}, nil, "only telemetry knows OpenTelemetry"},
	{"charm.land/", []string{"cmd/millrace/stage"}, nil, "only the full screen of replay knows bubbletea"},
	{"github.com/charmbracelet/", []string{"cmd/millrace/stage"}, nil, "only the full screen of replay knows bubbletea"},
	{"github.com/danielgtaylor/huma", []string{"httpapi"}, nil, "only httpapi makes an OpenAPI document"},
	{"database/sql", []string{"projections", "examples/outbox"}, nil, "only projections knows SQL"},
	{"modernc.org/sqlite", []string{"projections"}, []string{"examples/outbox"}, "only projections knows SQLite"},
	{"github.com/spf13/", []string{"cmd/millrace/..."}, nil, "flags belong to cmd"},
	{"os/exec", []string{"worker/process/...", "cmd/millrace/bench", "cmd/millrace/chaos", "cmd/millrace/told", "jet/natscontext", "integration/place"}, []string{"cmd/millrace/...", "integration/...", "jet/embed"}, "only worker/process/child starts processes; worker/process says how its shim is started, bench measures it against plain ones, chaos kills some of this program, a context may leave credentials to nsc or op, and a build from a checkout asks git which"},
}

// opaque are packages that pass a connection on and do nothing else with it.
var opaque = []string{"client", "cmd/millrace/..."}

// exceptions are files that break a rule for outsiders or for clocks, with the reason.
var exceptions = map[string]string{
	"events/memory.go": "leases run out and timers fire in a log in memory, too; tests move its clock with testing/synctest",
	"client/reach.go":  "tells programs what an error of the connection means, without their importing nats.go",
}

// clockless packages get time and chance as arguments; still ones start no goroutine either.
var (
	clockless = []string{"query", "task", "task/birth", "task/breaker", "task/choice", "task/definition", "task/duties", "task/family", "task/unique", "task/job", "task/jobfile", "task/limit", "task/output", "task/param", "task/queue", "task/quota", "task/reason", "task/schedule", "task/value", "task/where", "node", "files", "ipc", "events", "internal/form", "metrics", "verify", "verify/book", "verify/limits", "verify/past", "verify/thin", "verify/ticks", "view", "replay", "whatif", "spans", "cmd/millrace/load"}
	still     = []string{"query", "task", "task/birth", "task/breaker", "task/choice", "task/definition", "task/duties", "task/family", "task/unique", "task/job", "task/jobfile", "task/limit", "task/output", "task/param", "task/queue", "task/quota", "task/reason", "task/schedule", "task/value", "task/where", "node", "files", "internal/form", "metrics", "verify", "verify/book", "verify/limits", "verify/past", "verify/thin", "verify/ticks", "replay", "whatif", "spans", "cmd/millrace/load"}
)

// clockReads are the names by which a program reads its machine's clock.
var clockReads = []string{"Now", "Since", "Until"}

// Why a package or file reads the machine's clock.
const (
	// measures: the monotonic part of the readings tells how long something takes, or when to give
	// it up; the wall part is neither stored nor compared with a time from elsewhere.
	measures = "measures how long things take"
	// otherwise: the program that starts this part gives it the log's time.
	otherwise = "the machine's time is the default where the program gives no clock; else it measures how long things take"
)

// clocks are the packages and files that may read the machine's clock, with the reason. All others
// take the time from the store ([jet.Store.Now]), from the client, or from their configuration;
// package logclock keeps it. In client, api and the command line, where people enter times, each
// file has a row of its own.
var clocks = map[string]string{
	"logclock": "keeps the log's time, from the machine's and what the log answers",

	"client/nodes.go":   measures,
	"client/resolve.go": "gives ids that are drawn without a server their order",
	"desk/room.go":      measures,
	"api/queues.go":     measures,

	"httpapi/files.go":  "tells by when contents that are pushed or pulled must go on",
	"httpapi/stream.go": "tells by when who follows must have taken what he is sent",
	"httpapi/server.go": "the machine's time is the default where the program gives no clock",

	"local/local.go":                "tells which server of this machine is the newest; the records never leave it",
	"cmd/millrace/bench.go":         measures,
	"cmd/millrace/term/progress.go": measures,
	"cmd/millrace/submit/run.go":    measures,
	"cmd/millrace/reach/signals.go": measures,
	"cmd/millrace/act/bulk.go":      measures,

	"cmd/millrace/bench":       measures,
	"cmd/millrace/chaos":       "compares its faults with the times of a log on the same machine, and tells processes a wrong time",
	"cmd/millrace/chaos/proxy": measures,

	"jet":                  measures,
	"jet/link/forming.go":  measures,
	"jet/contents":         measures,
	"jet/floor":            measures,
	"jet/publish":          measures,
	"jet/pull":             measures,
	"jet/definitions":      measures,
	"jet/rig":              "gives the facts of tests their times",
	"jet/embed":            measures,
	"monitor":              otherwise,
	"projections":          measures,
	"scheduler":            otherwise,
	"scheduler/turns":      measures,
	"worker":               otherwise,
	"worker/filecache":     "marks files of this machine with its time; " + otherwise,
	"worker/process":       measures,
	"worker/process/child": measures,
	"events/logtest":       measures,

	"integration/place": measures, "internal/testkit": measures,

	"examples/crawl/crawler": "is a program of a user",
}

// pkg is a package as the rules see it.
type pkg struct {
	path  string // without the module's name
	files []file
}

type file struct {
	name    string
	test    bool
	imports []string
	// uses are the names that the file takes from its imports, as "time.Now".
	uses       []use
	goroutines int
	// skips are calls that skip a test.
	skips []string
	// lists are calls of methods of [listing], and requests that ask for the same.
	lists []string
	// ports are the interfaces that it declares.
	ports []port
}

// port is an interface: how many methods it declares itself, and the interfaces that it embeds, as
// "events.Reader".
type port struct {
	name    string
	methods int
	embeds  []string
}

// widest is the largest number of methods of a port, embedded ports included: a loop declares what
// it calls, and no more. A loop with several ports has them in a struct.
const widest = 12

// width counts the methods of a port and of the ports that it embeds; a type of another module
// counts as one.
func (p *port) width(all map[string]port) int {
	n := p.methods
	for _, name := range p.embeds {
		if in, ok := all[name]; ok {
			n += in.width(all)
		} else {
			n++
		}
	}
	return n
}

// most is the largest number of files of a package, tests aside: a newcomer can know it in a day.
const most = 25

// grown are the packages that have more, and how many. They may only shrink, and this list with them.
var grown = map[string]int{}

// size counts the files of a package, tests aside.
func (p *pkg) size() int {
	n := 0
	for _, f := range p.files {
		if !f.test {
			n++
		}
	}
	return n
}

// checkSizes lists the packages that are too large, and the rows of grown that no longer say how
// large one is.
func checkSizes(pkgs []pkg, grown map[string]int) []string {
	var found []string
	there := map[string]bool{}
	for i := range pkgs {
		p := &pkgs[i]
		there[p.path] = true
		switch n, listed := p.size(), grown[p.path]; {
		case listed == 0 && n > most:
			found = append(found, fmt.Sprintf("%s has %d files: a package has at most %d, and one idea", p.path, n, most))
		case listed > 0 && n > listed:
			found = append(found, fmt.Sprintf("%s has %d files, and had %d: it may only shrink", p.path, n, listed))
		case listed > 0 && n <= most:
			found = append(found, fmt.Sprintf("%s has %d files: take it off the list of those that have more than %d", p.path, n, most))
		case listed > 0 && n < listed:
			found = append(found, fmt.Sprintf("%s has shrunk to %d files: say so in the list, which has %d", p.path, n, listed))
		}
	}
	for path := range grown {
		if !there[path] {
			found = append(found, path+" is on the list of large packages and does not exist")
		}
	}
	slices.Sort(found)
	return found
}

// checkPorts lists the ports that are too wide.
func checkPorts(pkgs []pkg) []string {
	var found []string
	all := map[string]port{}
	for _, p := range pkgs {
		for _, f := range p.files {
			for _, in := range f.ports {
				for i, name := range in.embeds {
					if !strings.Contains(name, ".") {
						in.embeds[i] = path.Base(p.path) + "." + name
					}
				}
				all[path.Base(p.path)+"."+in.name] = in
			}
		}
	}
	for name, in := range all {
		if n := in.width(all); n > widest {
			found = append(found, fmt.Sprintf("%s has %d methods: a port has at most %d", name, n, widest))
		}
	}
	slices.Sort(found)
	return found
}

type use struct{ from, name string }

func (f *file) takes(from string, names ...string) []string {
	var found []string
	for _, u := range f.uses {
		if u.from == from && slices.Contains(names, u.name) {
			found = append(found, u.from+"."+u.name)
		}
	}
	return found
}

// conflicted are the files beside events that know of a conflict; all others decide on an
// [events.Chain].
var conflicted = map[string]string{
	"jet/link/errors.go":       "finds it in the server's codes",
	"jet/presence/presence.go": "forgets which heartbeat its next one follows",
}

// listing are the methods of a stream that list all of its consumers, which is much on a log with
// many nodes and queues. Code looks up consumers by name instead.
var listing = []string{"ListConsumers", "ConsumerNames", "ConsumersInfo"}

// violations lists all violations, each with its place and the reason.
func violations(pkgs []pkg) []string {
	var found []string
	for i := range pkgs {
		p := &pkgs[i]
		say := func(f *file, format string, args ...any) {
			found = append(found, p.path+"/"+f.name+": "+fmt.Sprintf(format, args...))
		}
		if _, ok := row(p.path); !ok {
			found = append(found, p.path+": the house plan has no row for this package")
			continue
		}
		for j := range p.files {
			f := &p.files[j]
			for _, path := range f.imports {
				if inside, ok := strings.CutPrefix(path, module); ok {
					if !p.mayImport(inside, f.test) {
						say(f, "imports %s: imports point down, and the row of %s does not have it", path, p.path)
					}
				} else if why := p.refuses(f, path); why != "" {
					say(f, "imports %s: %s", path, why)
				}
			}
			p.checkCalls(f, say)
		}
	}
	return append(found, checkPorts(pkgs)...)
}

func (p *pkg) mayImport(inside string, test bool) bool {
	may, _ := row(p.path)
	if at := roomAt(p.path); at >= 0 {
		if of := roomAt(inside); of >= 0 || inside == "cmd/millrace" {
			return inside == p.path && test || of >= 0 && of < at
		}
	}
	if slices.Equal(may, anything) || slices.Contains(may, inside) || slices.Contains(may, "task") && slices.Contains(plan["task"], inside) {
		return true
	}
	if !test {
		return false
	}
	return inside == p.path || slices.Contains(testsMayImport, inside) || p.path == "integration" || strings.HasPrefix(p.path, "integration/")
}

// roomAt returns the index of a package among the rooms; -1 if it is none.
func roomAt(path string) int {
	room, below := strings.CutPrefix(path, "cmd/millrace/")
	if !below {
		return -1
	}
	return slices.Index(rooms, room)
}

// refuses returns why a file may not import something from outside, "" if it may.
func (p *pkg) refuses(f *file, path string) string {
	for _, o := range outsiders {
		if path != o.prefix && !strings.HasPrefix(path, o.prefix+"/") && !(strings.HasSuffix(o.prefix, "/") && strings.HasPrefix(path, o.prefix)) {
			continue
		}
		switch {
		case holds(o.may, p.path), f.test && holds(o.tests, p.path), exceptions[p.path+"/"+f.name] != "":
			return ""
		case path == "github.com/nats-io/nats.go" && holds(opaque, p.path):
			for _, u := range f.uses {
				if u.from == path && u.name != "Conn" {
					return o.why + "; here nats.Conn may be passed on, and nats." + u.name + " may not be used"
				}
			}
			return ""
		}
		return o.why
	}
	return ""
}

// trials are the packages besides the desk that make a birth but no task of it, with what they use
// it for.
var trials = map[string]string{
	"task/schedule":      "a definition is refused of which none could be made",
	"task/tasktest":      "tests try it",
	"view":               "a plan says what a job's task would be",
	"verify":             "children are held against what they should have been",
	"cmd/millrace/bench": "many are placed at once, to measure what the log takes",
}

func (p *pkg) checkCalls(f *file, say func(*file, string, ...any)) {
	if f.test {
		// In a bubble of synctest no time passes.
		if slept := f.takes("time", "Sleep"); len(slept) > 0 && !slices.Contains(f.imports, "testing/synctest") {
			say(f, "a test sleeps: wait for what it waits for, or use testing/synctest")
		}
		for _, s := range f.skips {
			say(f, "%s: a test that does not run is not a test", s)
		}
		return
	}
	if len(f.takes(module+"events", "ErrConflict")) > 0 && conflicted[p.path+"/"+f.name] == "" && p.path != "events/logtest" {
		say(f, "knows of a conflict: decide on an events.Chain")
	}
	if len(f.lists) > 0 {
		say(f, "%v: nobody lists all consumers; ask for those whose names follow from what is known", f.lists)
	}
	starts := slices.Concat(f.takes("os", "StartProcess"), f.takes("syscall", "ForkExec", "StartProcess", "Exec"))
	if len(starts) > 0 && p.path != "worker/process/child" && p.path != "cmd/millrace/bench" {
		say(f, "%v: only worker/process/child starts processes", starts)
	}
	if len(f.takes("os", "Rename")) > 0 && p.path != "private" &&
		p.path+"/"+f.name != "projections/store.go" && p.path != "cmd/millrace/chaos" { // one can be made again, the other only breaks things
		say(f, "puts a file into its place: private.Write also flushes it, for a loss of power")
	}
	births := append(f.takes("millrace/task/family", "Births", "Child"), f.takes("millrace/task/birth", "Copy", "Of")...)
	if len(births) > 0 && p.path != "desk" && trials[p.path] == "" {
		say(f, "%v: only the desk makes births", births)
	}
	if slices.Contains(clockless, p.path) {
		clocks := f.takes("time", "Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep")
		if len(clocks) > 0 && exceptions[p.path+"/"+f.name] == "" {
			say(f, "%v: time is an argument here", clocks)
		}
		for _, chance := range []string{"math/rand", "math/rand/v2", "crypto/rand"} {
			if slices.Contains(f.imports, chance) {
				say(f, "imports %s: chance is an argument here", chance)
			}
		}
	}
	if reads := f.takes("time", clockReads...); len(reads) > 0 && !slices.Contains(clockless, p.path) && clocks[p.path] == "" && clocks[p.path+"/"+f.name] == "" {
		say(f, "%v: take the log's time from the store or the client; a file that only measures durations needs a row in clocks", reads)
	}
	if slices.Contains(still, p.path) {
		if f.goroutines > 0 {
			say(f, "starts a goroutine: this package is a set of pure functions")
		}
		for _, io := range []string{"os", "net", "net/http", "syscall"} {
			if slices.Contains(f.imports, io) {
				say(f, "imports %s: this package does no I/O", io)
			}
		}
	}
}
