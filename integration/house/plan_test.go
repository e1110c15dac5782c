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
// without one the test fails. A row of a file stands in place of its package's.
var plan = map[string][]string{
	// The Go face. Its tests alone have a server; Go refuses the rest as a cycle.
	".": {"service/client", "service/rerun", "events/jet/request", "worker", "events", "events/submit", "task", "task/jobfile", "task/node", "task/output", "task/schedule", "embedded"},
	// The test kit: the real rules on a log in memory. No program links it.
	"millracetest": {".", "service/client", "service/rerun", "worker", "scheduler", "history/whatif", "history/incident", "events", "events/jet/definitions", "task", "task/output", "task/schedule", "task/node"},
	"embedded":     {"service/answers", "service/client", "service/rerun", "scheduler", "projections", "events/jet", "events/jet/embed", "events/jet/request", "events/jet/streams", "events", "task", "task/output", "task/node"},
	// Packages below task, and packages around it: importers of task may import all of them. Only
	// the tests of task import those around it; Go refuses such an import elsewhere as a cycle.
	"task":             {"task/limit", "task/job", "task/param", "task/queue", "task/value", "task/placement", "task/birth", "task/duties"},
	"task/birth":       {"task"},
	"task/condition":   {"task"}, // it links the language, so programs of users do not
	"task/duties":      {"task", "task/schedule"},
	"task/param":       {"task/value"},
	"task/value":       {},
	"task/placement":   {"task/value"},
	"task/limit":       {"task/value", "task/placement"},
	"task/queue":       {"task/limit", "task/job", "task/value"},
	"task/job":         {"task/limit", "task/param", "task/value", "task/placement"},
	"internal/form":    {},
	"internal/testkit": {},
	"task/jobfile":     {"internal/form", "task/value", "task", "task/schedule"},
	"task/schedule":    {"task"},
	"task/quota":       {"task"},
	"task/output":      {"task"},
	"task/node":        {"task"}, // for the form of names
	"internal/files":   {},

	"events":         {"internal/form", "task", "task/node"},
	"events/logtest": {"internal/testkit", "events", "task", "task/node"},

	"history/verify/findings":          {"events", "task/node", "task", "task/schedule", "internal/form", "task/quota"},
	"history/verify":                   {"history/verify/findings", "internal/form", "events", "task", "task/quota", "task/schedule", "task/node"},
	"history/replay":                   {"internal/form", "task/condition", "task/value", "history/verify", "projections/view", "events", "task", "task/quota", "task/node"},
	"history/whatif/simulation.go":     {"scheduler", "worker/claim", "projections/view", "events", "task", "task/quota", "task/schedule", "task/node"},
	"history/whatif/simulate_model.go": {"scheduler", "worker/claim", "projections/view", "events", "task", "task/quota", "task/schedule", "task/node"},
	"history/whatif/nodes.go":          {"scheduler", "worker/claim", "projections/view", "events", "task", "task/quota", "task/schedule", "task/node"},
	"history/whatif":                   {"task/value", "projections/view", "history/verify", "history/incident", "events", "task", "task/limit", "task/schedule", "task/node"}, // incident for its tests alone

	"internal/observe":               {"projections/view", "events", "task", "worker", "internal/metrics", "task/schedule", "task/node"}, // internal/observe for its tests alone
	"projections/view":               {"events", "task", "task/quota", "task/schedule", "task/node"},
	"history/incident":               {"events", "task/node", "task", "task/schedule", "internal/files"}, // node for its tests alone
	"projections/past":               {"internal/form", "projections/view", "events", "task", "task/limit", "task/placement", "task/quota"},
	"projections":                    {"internal/form", "projections/past", "projections/view", "events", "task", "task/quota", "task/node", "history/incident"}, // incident for its tests alone
	"internal/metrics":               {"events", "task", "task/quota", "task/node"},
	"events/submit":                  {"events", "task/node", "task", "task/schedule"},
	"scheduler":                      {"task", "events/submit", "events", "task/quota", "task/schedule", "task/node"},
	"worker/claim":                   {"events", "task", "task/schedule", "task/node"},
	"worker":                         {"worker/claim", "events", "task", "task/output", "task/schedule", "task/node", "internal/files"},
	"worker/example_test.go":         {"events/jet", "events/jet/embed", "events/jet/streams", "service/client", "task", "task/output", "worker"},
	"ipc":                            {"task/value"},
	"events/jet/request/logclock.go": {},
	"events/jet/request/shift.go":    {},
	"events/jet/request":             {"internal/files", "task/value", "events/jet/names", "events", "task/node", "task"},
	"worker/process":                 {"worker/process/child", "worker", "ipc", "task", "task/output", "internal/files"},
	"worker/process/child":           {"ipc", "task", "internal/files"},

	"worker/filecache":       {"worker", "internal/files", "task", "task/output"},
	"events/jet/names":       {"events", "task", "task/node"},
	"events/jet/pubsub":      {"events/jet/request", "events", "events/jet/streams", "events/jet/names", "task"}, // all but the first two for its tests alone
	"integration/bench":      anything,
	"events/jet/outputs":     {"events/jet/request", "events/jet/names", "events", "internal/files", "task", "events/jet", "events/jet/streams", "task/output"}, // the last two for its tests alone
	"events/jet":             {"events/jet/request", "events/jet/rights", "events/jet/streams", "events/jet/names", "events", "task/node", "task", "events/jet/pubsub", "events/jet/outputs", "events/jet/definitions", "internal/files", "task/output", "task/schedule"},
	"events/jet/rights":      {"events/jet/names", "events", "task/node", "task"},
	"events/jet/streams":     {"events/jet/request", "events/jet/names", "events", "task/value"},
	"events/jet/definitions": {"events/jet/request", "events/jet/rights", "events/jet/names", "events", "internal/files", "task", "task/schedule", "events/jet", "events/jet/streams"}, // jet and events/jet/streams for its tests alone
	"events/jet/natstest":    {"events/jet/embed", "internal/testkit", "events", "internal/files", "task"},
	"events/jet/embed":       {"events/jet", "events/jet/streams", "events/jet/request", "events/jet/names", "events", "internal/files"},                                                                                                                                                                           // jet and events/jet/streams for its tests alone: those of jet import it, so that Go refuses the rest
	"service/client":         {"internal/form", "projections/view", "events/submit", "events/jet", "events/jet/outputs", "events/jet/rights", "events/jet/definitions", "events/jet/streams", "events/jet/request", "events", "internal/files", "task", "task/output", "task/quota", "task/schedule", "task/node"}, // events/jet/streams for its tests alone
	"service/answers":        {"service/client", "projections/view", "history/verify", "history/replay", "history/whatif", "projections", "internal/observe", "task/condition", "task/jobfile", "events/jet", "events/jet/outputs", "events/jet/request", "events/jet/rights", "events/jet/definitions", "events", "internal/files", "task", "task/output", "task/quota", "task/schedule", "task/node"},
	"service/notices":        {"internal/files", "service/answers", "service/client", "projections/view", "events/submit", "events/jet/definitions", "events", "task"},
	"service/triggers":       {"service/answers", "service/client", "worker", "projections/view", "events/submit", "events/jet/definitions", "events/jet/pubsub", "events", "task", "task/condition", "task/schedule", "task/value", "task/node"},
	"service/httpapi":        {"service/answers", "service/client", "task/value", "history/whatif", "internal/metrics", "projections/view", "events/jet", "events/jet/rights", "events/jet/definitions", "events/jet/streams", "events/jet/embed", "projections", "events", "events/logtest", "task", "task/schedule", "task/output", "task/node"}, // events/jet/embed, events/jet/streams, projections and whatif for its tests alone
	"service/rerun":          {"service/client", "worker", "events", "events/jet/definitions", "task", "task/output", "task/schedule", "task/node"},
	"ipc/clients/go":         {"ipc"},

	"cmd/millrace":       anything,
	"cmd/millrace-bench": anything,
	"cmd/millrace-chaos": anything,
	"integration/load":   {},
	"integration/chaos":  anything,
	"integration/house":  {},
	// The harness of the tests below, and of others that need a server.
	"integration/harness":    {"service/client", "events", "internal/testkit", "events/jet", "events/jet/embed", "events/jet/streams", "task/node", "task"},
	"integration/promises":   {},
	"integration/simulation": {},

	// The programs of users import only the client side of Millrace.
	"examples":               anything, // is the command that shows them
	"examples/crawl":         {"examples/crawl/crawler"},
	"examples/crawl/crawler": {},
	"examples/shop":          {"embedded", "millracetest", "service/client", "task"},
}

// anything is the row of the packages that wire the rest.
var anything = []string{"*"}

// rooms are the parts of the command line and the pages. Each may import those that stand before
// it.
var rooms = []string{"internal/cli/term", "internal/cli/settings", "internal/cli/wording", "internal/cli/connect", "service/inspect", "service/pages", "internal/cli/serve", "internal/cli/history", "internal/cli/task", "internal/cli/verb", "internal/cli/job"}

// commands are the packages that talk with people at a terminal or a page, and the programs that measure and break an
// installation.
var commands = []string{"cmd/millrace", "examples", "internal/cli/...", "service/pages/...", "service/inspect", "cmd/millrace-bench", "cmd/millrace-chaos", "integration/bench", "integration/chaos/...", "integration/load"}

// workshop are the programs that prove, measure and break Millrace, and what is made for them: the
// product links none of it. Its tests may use the harness.
var workshop = []string{"cmd/millrace-bench", "cmd/millrace-chaos", "integration/..."}

// proofs are the packages of tests that may import anything.
var proofs = []string{"integration/house", "integration/promises", "integration/simulation"}

// row is the row of the house plan for a package: its own, or that of its subtree.
func row(path string) (may []string, ok bool) {
	if may, ok = plan[path]; ok {
		return may, true
	}
	if slices.Contains(rooms, path) {
		return anything, true
	}
	return nil, false
}

// holds tells whether a list of packages has one, by its name or as part of a subtree:
// "internal/cli/...".
func holds(list []string, path string) bool {
	return slices.ContainsFunc(list, func(of string) bool {
		above, subtree := strings.CutSuffix(of, "/...")
		return of == path || subtree && (path == above || strings.HasPrefix(path, above+"/"))
	})
}

// testsMayImport are the packages that any test may use besides its package's own row.
var testsMayImport = []string{"events/logtest", "internal/testkit", "events/jet/embed", "integration/harness", "events/jet/natstest", "history/verify"}

// outsiders are imports that only some packages may have; of several rules the
// longest prefix counts.
var outsiders = []struct {
	prefix string
	may    []string // packages
	tests  []string // packages whose tests may, too
	why    string
}{
	{"github.com/nats-io/nats-server", []string{"events/jet/embed"}, []string{"events/jet", "events/jet/rights", "integration/house", "integration/promises", "integration/simulation", "integration/harness"}, "only events/jet/embed knows the NATS server, for programs that bring none do not link it"},
	{"github.com/nats-io/nats.go", []string{"events/jet", "events/jet/request", "events/jet/pubsub", "events/jet/outputs", "events/jet/rights", "events/jet/streams", "events/jet/definitions", "events/jet/embed", "events/jet/natstest", "service/answers", "integration/harness"}, []string{"service/client", "cmd/millrace", "internal/cli/...", "service/pages/...", "service/inspect", "integration/..."}, "only events/jet and its rooms and the service of service/answers speak to NATS"},
	{"github.com/nats-io/jsm.go", nil, []string{"events/jet/request"}, "it links the NATS server; events/jet/request reads contexts"},
	{"github.com/nats-io/", []string{"events/jet", "events/jet/pubsub", "events/jet/request"}, []string{"integration/..."}, "only jet knows the tools of NATS"},
	{"github.com/nicholas-fedor/", []string{"service/notices"}, nil, "only notices knows the services that bring people messages"},
	{"github.com/rs/zerolog", commands, nil, "only the command line knows how log lines are written; all else takes a *slog.Logger"},
	{"github.com/prometheus/", []string{"internal/observe"}, nil, "only internal/observe speaks to Prometheus; what is counted is in internal/metrics"},
	{"github.com/expr-lang/", []string{"history/replay", "task/condition"}, nil, "only condition knows the language, and replay what its breakpoints see"},
	{"github.com/klauspost/", []string{"history/incident", "service/httpapi", "events/jet/streams"}, nil, "only incident (with segments of archives) and httpapi know how what they write is packed, and streams how the NATS server packs what it backs up"},
	{"github.com/minio/", []string{"events/jet/embed"}, nil, "only events/jet/embed knows in which form a NATS server keeps streams"},
	{"go.opentelemetry.io/", []string{"internal/observe"}, nil, "only internal/observe knows OpenTelemetry"},
	{"github.com/modelcontextprotocol/", []string{"service/httpapi"}, []string{"integration/promises"}, "only service/httpapi speaks to assistants"},
	{"charm.land/", []string{"internal/cli/history"}, nil, "only the full screen of replay knows bubbletea"},
	{"github.com/charmbracelet/", []string{"internal/cli/history"}, nil, "only the full screen of replay knows bubbletea"},
	{"github.com/danielgtaylor/huma", []string{"service/httpapi"}, nil, "only httpapi makes an OpenAPI document"},
	{"database/sql", []string{"projections", "examples/shop", "."}, nil, "only projections knows SQL, and the outbox in a user's database"},
	{"modernc.org/sqlite", []string{"projections"}, []string{"examples/shop"}, "only projections knows SQLite"},
	{"github.com/spf13/", append([]string{"integration/harness"}, commands...), nil, "flags belong to the command line"},
	{"os/exec", []string{"worker/process/...", "integration/bench", "integration/chaos", "internal/cli/wording", "internal/cli/connect", "events/jet/request", "integration/harness"}, []string{"cmd/millrace", "internal/cli/...", "service/pages/...", "service/inspect", "integration/...", "events/jet/embed", "ipc/clients/go"}, "only worker/process/child starts processes; worker/process says how its shim is started, bench measures it against plain ones, chaos kills some of this program, a context may leave credentials to nsc or op, a build from a checkout asks git which, and millrace finds the programs that it starts in its place, or beside it for replay"},
}

// opaque are packages that pass a connection on and do nothing else with it.
var opaque = append([]string{"service/client"}, commands...)

// exceptions are files that break a rule for outsiders or for clocks, with the reason.
var exceptions = map[string]string{
	"events/memory.go":           "leases run out and timers fire in a log in memory, too; tests move its clock with testing/synctest",
	"integration/bench/floor.go": "the bare loops against which the benchmark is held speak to NATS themselves",
	"service/client/target.go":   "tells programs what an error of the connection means, without their importing nats.go",
}

// clockless packages and files get time and chance as arguments; still ones start no goroutine either.
var (
	clockless = []string{"task", "task/birth", "task/condition", "task/limit", "task/duties", "task/job", "task/jobfile", "task/output", "task/param", "task/queue", "task/quota", "task/value", "task/schedule", "task/placement", "task/node", "internal/files/diff.go", "internal/files/digest.go", "internal/files/doc.go", "internal/files/ignore.go", "internal/files/manifest.go", "internal/files/ref.go", "ipc", "events", "internal/form", "internal/metrics", "history/verify", "history/verify/findings", "projections/view", "history/replay", "history/whatif", "internal/observe/spans.go", "integration/load"}
	still     = []string{"projections/view/complete.go", "projections/view/moment.go", "projections/view/query.go", "projections/view/times.go", "task", "task/birth", "task/condition", "task/limit", "task/duties", "task/job", "task/jobfile", "task/output", "task/param", "task/queue", "task/quota", "task/value", "task/schedule", "task/placement", "task/node", "internal/files/diff.go", "internal/files/digest.go", "internal/files/doc.go", "internal/files/ignore.go", "internal/files/manifest.go", "internal/files/ref.go", "internal/form", "internal/metrics", "history/verify", "history/verify/findings", "history/replay", "history/whatif", "internal/observe/spans.go", "integration/load/arrivals.go", "integration/load/judge.go", "integration/load/profile.go", "integration/load/report.go", "integration/load/result.go", "integration/load/tally.go"}
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
// request.Clock keeps it. In the client, the service and the command line, where people enter times, each
// file has a row of its own.
var clocks = map[string]string{
	"events/jet/request/shift.go":    "plays a wrong clock",
	"events/jet/request/logclock.go": "keeps the log's time, from the machine's and what the log answers",

	"./durable.go":              measures,
	"./outbox.go":               "its rows wait by the clock of the relay, and are written where no log is asked",
	"millracetest":              "its log's clock is that of the test's bubble, which time.Now reads",
	"service/rerun/past.go":     "is given records, and the time of nothing else",
	"service/client/nodes.go":   measures,
	"service/client/resolve.go": "gives ids that are drawn without a server their order",
	"events/submit/room.go":     measures,
	"service/answers/queues.go": measures,

	"service/httpapi/files.go":  "tells by when contents that are pushed or pulled must go on",
	"service/httpapi/stream.go": "tells by when who follows must have taken what he is sent",
	"service/httpapi/server.go": "the machine's time is the default where the program gives no clock",

	"events/jet/request/local.go":     "tells which server of this machine is the newest; the records never leave it",
	"cmd/millrace-bench/bench.go":     measures,
	"internal/cli/term/progress.go":   measures,
	"internal/cli/verb/run.go":        measures,
	"internal/cli/connect/signals.go": measures,
	"internal/cli/verb/bulk.go":       measures,

	"integration/bench": measures,
	"integration/chaos": "compares its faults with the times of a log on the same machine, and tells processes a wrong time",

	"events/jet":                    measures,
	"events/jet/request/forming.go": measures,
	"events/jet/outputs/sweep.go":   measures,
	"events/jet/pubsub":             measures,
	"events/jet/definitions":        measures,
	"events/jet/natstest":           "gives the facts of tests their times",
	"events/jet/embed":              measures,
	"internal/observe/beats.go":     otherwise,
	"internal/observe/log.go":       otherwise,
	"internal/observe/monitor.go":   otherwise,
	"internal/observe/server.go":    otherwise,
	"internal/observe/follow.go":    otherwise,
	"projections":                   measures,
	"scheduler":                     otherwise,
	"worker":                        otherwise,
	"worker/filecache":              "marks files of this machine with its time; " + otherwise,
	"worker/process":                measures,
	"worker/process/child":          measures,
	"events/logtest":                measures,

	"integration/harness": measures, "internal/testkit": measures,

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
	"events/jet/request/errors.go": "finds it in the server's codes",
	"events/jet/presence.go":       "forgets which heartbeat its next one follows",
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
					if !p.mayImport(f.name, inside, f.test) {
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

// mayImport tells whether a file may import a package of this module.
func (p *pkg) mayImport(file, inside string, test bool) bool {
	may, _ := row(p.path)
	if part, ok := plan[p.path+"/"+file]; ok {
		may = part
	}
	if holds(workshop, inside) && !holds(workshop, p.path) {
		return test && slices.Contains(testsMayImport, inside)
	}
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
	return inside == p.path || slices.Contains(testsMayImport, inside) || slices.Contains(proofs, p.path)
}

// roomAt returns the index of a package among the rooms; -1 if it is none.
func roomAt(path string) int {
	return slices.Index(rooms, path)
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
	"task/schedule":     "a definition is refused of which none could be made",
	"events/logtest":    "tests try it",
	"projections/view":  "a plan says what a job's task would be",
	"history/verify":    "children are held against what they should have been",
	"history/whatif":    "a simulation has children as their parents would make them",
	"integration/bench": "many are placed at once, to measure what the log takes",
}

// pure tells whether a list has a file, by its own name or its package's.
func pure(list []string, p *pkg, f *file) bool {
	return slices.Contains(list, p.path) || slices.Contains(list, p.path+"/"+f.name)
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
	if len(f.lists) > 0 && !slices.Contains([]string{"events/jet/streams/backup.go", "events/jet/horizon.go"}, p.path+"/"+f.name) { // once for each backup, and each horizon
		say(f, "%v: nobody lists all consumers; ask for those whose names follow from what is known", f.lists)
	}
	starts := slices.Concat(f.takes("os", "StartProcess"), f.takes("syscall", "ForkExec", "StartProcess", "Exec"))
	if len(starts) > 0 && p.path != "worker/process/child" && p.path != "integration/bench" && p.path+"/"+f.name != "internal/cli/connect/tools.go" {
		say(f, "%v: only worker/process/child starts processes", starts)
	}
	if len(f.takes("os", "Rename")) > 0 && p.path != "internal/files" &&
		p.path+"/"+f.name != "projections/store.go" && p.path != "integration/chaos" { // one can be made again, the other only breaks things
		say(f, "puts a file into its place: files.Write also flushes it, for a loss of power")
	}
	births := f.takes("millrace/task/birth", "Births", "Child", "Copy", "Of")
	if len(births) > 0 && p.path != "events/submit" && trials[p.path] == "" {
		say(f, "%v: only the desk makes births", births)
	}
	if pure(clockless, p, f) {
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
	if reads := f.takes("time", clockReads...); len(reads) > 0 && !pure(clockless, p, f) && clocks[p.path] == "" && clocks[p.path+"/"+f.name] == "" {
		say(f, "%v: take the log's time from the store or the client; a file that only measures durations needs a row in clocks", reads)
	}
	if pure(still, p, f) {
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
