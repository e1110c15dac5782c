package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// executed are the methods by which a task is offered, now or in time, and by which a node hears of
// it, by the port of package events that declares them. Only a Recorder calls them.
var executed = map[string][]string{
	"Placer":     {"Place", "PlaceAll", "PlaceClaimed"},
	"Timekeeper": {"Arm", "Disarm"},
	"Hinter":     {"Hint"},
}

// executors are the packages that may call these methods: that of the Recorder, the suite that every log passes, and
// the log of the test kit, which passes on what a Recorder calls.
var executors = []string{"events", "events/logtest", "millracetest"}

// typed is the module as the compiler sees it.
type typed struct {
	files  *token.FileSet
	gc     types.Importer
	listed []listed
	// owned are the methods of [executed].
	owned []*types.Func
	// all are the packages that [typed.read] has read, by path.
	all map[string]*checked
}

// checked are the sources of a package, and the types of all in them.
type checked struct {
	sources []*ast.File
	*types.Info
}

// listed is a package as the go command lists it. Export is a file with its compiled types.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles, Deps           []string
	Standard                bool
}

// moduleTypes has the types of this module, which are read once.
var moduleTypes = sync.OnceValues(func() (*typed, error) { return loadTypes("../..") })

// loadTypes compiles the module at root and reads the types of its packages.
func loadTypes(root string) (*typed, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,Deps,Standard", "./...")
	list.Dir = root
	list.Stderr = new(bytes.Buffer)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, list.Stderr)
	}
	m := &typed{files: token.NewFileSet(), all: map[string]*checked{}}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) {
			m.listed = append(m.listed, p)
		}
	}
	m.gc = importer.ForCompiler(m.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	events, err := m.gc.Import(module + "events")
	if err != nil {
		return nil, err
	}
	for port, names := range executed {
		is, ok := events.Scope().Lookup(port).(*types.TypeName)
		if !ok {
			return nil, fmt.Errorf("package events has no port %s", port)
		}
		of, ok := is.Type().Underlying().(*types.Interface)
		if !ok || of.NumMethods() != len(names) {
			return nil, fmt.Errorf("the methods of events.%s are not those of the list", port)
		}
		for method := range of.Methods() {
			if !slices.Contains(names, method.Name()) {
				return nil, fmt.Errorf("events.%s has a method %s, which is not on the list", port, method.Name())
			}
			m.owned = append(m.owned, method)
		}
	}
	return m, nil
}

// check finds the types of sources.
func (m *typed) check(path string, sources ...*ast.File) (*checked, error) {
	c := &checked{sources, &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}}
	check := types.Config{Importer: m.gc}
	_, err := check.Check(path, m.files, sources, c.Info)
	return c, err
}

// read reads a package, once.
func (m *typed) read(p *listed) (c *checked, err error) {
	if c = m.all[p.ImportPath]; c != nil {
		return c, nil
	}
	var sources []*ast.File
	for _, name := range p.GoFiles {
		source, err := parser.ParseFile(m.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	c, err = m.check(p.ImportPath, sources...)
	m.all[p.ImportPath] = c
	return c, err
}

// uses lists where a package's sources call an owned method, or take it as a value.
func (m *typed) uses(c *checked) (found []string) {
	for at, is := range c.Selections {
		method, ok := is.Obj().(*types.Func)
		if ok && slices.ContainsFunc(m.owned, func(o *types.Func) bool {
			return o.Name() == method.Name() && types.Identical(o.Signature(), method.Signature())
		}) {
			found = append(found, fmt.Sprintf("%s: %s of a %s: only a Recorder does that", m.files.Position(at.Pos()), method.Name(), is.Recv()))
		}
	}
	slices.Sort(found)
	return found
}

// Whatever a loop calls a log, or a part of it: it neither places, arms, disarms nor hints itself.
func TestOnlyARecorderPlacesArmsAndHints(t *testing.T) {
	m, err := moduleTypes()
	if err != nil {
		t.Fatal(err)
	}
	there := false
	for i := range m.listed {
		p := &m.listed[i]
		if p.ImportPath != module+"events" && !slices.Contains(p.Deps, module+"events") {
			continue // it knows no facts
		}
		c, err := m.read(p)
		if err != nil {
			t.Fatal(err)
		}
		found := m.uses(c)
		if slices.Contains(executors, strings.TrimPrefix(p.ImportPath, module)) {
			there = there || len(found) > 0
			continue
		}
		for _, f := range found {
			t.Error(f)
		}
	}
	if !there {
		t.Error("not even the Recorder calls any of these methods: the rule looks for the wrong ones")
	}

	for name, c := range map[string]struct {
		source string
		want   string // part of the only finding; "" for none
	}{
		"the log of a recorder": {`func f(r *events.Recorder) { r.Log.Place(nil, nil) }`, "Place of a millrace/events.Log"},
		"many at once":          {`func f(l events.Log) { l.PlaceAll(nil, nil, true, nil) }`, "PlaceAll of"},
		"with a claim":          {`func f(l *events.Memory) { l.PlaceClaimed(nil, nil, "", 0, true) }`, "PlaceClaimed of a *millrace/events.Memory"},
		"a timer":               {`func f(l events.Timekeeper) { l.Arm(nil, nil) }`, "Arm of a millrace/events.Timekeeper"},
		"a hint":                {`func f(r *events.Recorder) { r.Hints.Hint("a", "") }`, "Hint of a millrace/events.Hinter"},
		"a port of its own":     {`type port interface{ Disarm(context.Context, task.ID, uint64) error }; func f(p port) { p.Disarm(nil, "", 0) }`, "Disarm of"},
		"embedded":              {`type store struct { *events.Memory }; func f(s store) { s.Arm(nil, nil) }`, "Arm of"},
		"taken as a value":      {`func f(l events.Log) any { return l.Disarm }`, "Disarm of"},
		"taken of the type":     {`var f = (*events.Memory).Place`, "Place of"},
		"by another name":       {`type alias = events.Log; func f(whatever alias) { whatever.Place(nil, nil) }`, "Place of"},
		"of a generic type":     {`func f[L events.Placer](l L) { l.Place(nil, nil) }`, "Place of"},

		"by the recorder":         {`func f(r *events.Recorder, t *task.Task) { r.Settle(nil, t) }`, ""},
		"a method of that name":   {`type shelf struct{}; func (shelf) Place(string) {}; func f(s shelf) { s.Place("") }`, ""},
		"implemented, not used":   {`type log struct { events.Log }; func (log) Hint(node.ID, task.ID) error { return nil }`, ""},
		"a log that is passed on": {`func f(l events.Log) *events.Recorder { return &events.Recorder{Log: l} }`, ""},
	} {
		source, err := parser.ParseFile(m.files, name+".go", "package x\nimport (\"context\"; \"millrace/events\"; \"millrace/task/node\"; \"millrace/task\")\nvar _ context.Context; var _ events.Log; var _ node.ID; var _ task.ID\n"+c.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		x, err := m.check("x", source)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := m.uses(x)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}
