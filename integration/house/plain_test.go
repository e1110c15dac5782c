package house

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compared are the files that may show a value as Go does, and why.
var compared = map[string]string{
	"scheduler/react.go":               "it compares labels with those of the last look",
	"history/verify/findings/batch.go": "reports of old logs, which are kept, have these words",
}

// A text for people shows no value as Go prints it: no list as [a b], no map[…], no pointer.
func TestNoValuesOfGo(t *testing.T) {
	m, err := moduleTypes()
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.listed {
		p := &m.listed[i]
		path := strings.TrimPrefix(p.ImportPath, module)
		if slices.ContainsFunc([]string{"integration", "events/logtest", "internal/testkit"}, func(of string) bool { return strings.HasPrefix(path, of) }) {
			continue
		}
		c, err := m.read(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.raw(c) {
			if name, _ := filepath.Rel(root(t), f[:strings.IndexByte(f, ':')]); compared[name] == "" {
				t.Error(f)
			}
		}
	}
	for source, want := range map[string]string{
		`func f(l []string) string { return fmt.Sprintf("one of %v", l) }`:                                    "[]string",
		`func f(l []string) error { return fmt.Errorf("one of %q", l) }`:                                      "[]string",
		`type s string; func f(l []s) string { return fmt.Sprint("one of ", l) }`:                             "[]x.s",
		`func f(m map[string]int) { fmt.Println(m) }`:                                                         "map[string]int",
		`func f(p *int) string { return fmt.Sprintf("%d", p) }`:                                               "*int",
		`func f(t time.Time) string { return fmt.Sprintf("%s", t) }`:                                          "time.Time",
		`func say(format string, args ...any) {}; func f(n int, l []int) { say("%d %v", n, l) }`:              "[]int",
		`type s struct{ A int }; func f(is s) string { return fmt.Sprintf("%+v", is) }`:                       "x.s",
		`func f(n int, e error, b []byte) string { return fmt.Sprintf("%d %v %s %x", n, e, b, b) }`:           "",
		`type s []int; func (s) String() string { return "" }; func f(is s) string { return fmt.Sprint(is) }`: "",
		`func f(l []any) string { return fmt.Sprintf("%d %d", l...) }`:                                        "",
		`func f(n int, l string) string { return fmt.Sprintf("%*d %-4s", n, n, l) }`:                          "",
	} {
		file, err := parser.ParseFile(m.files, "x.go", "package x\nimport (\"fmt\"; \"time\")\nvar _ = fmt.Sprint; var _ time.Time\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		x, err := m.check("x", file)
		if err != nil {
			t.Fatal(err)
		}
		found := m.raw(x)
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0], want)) {
			t.Errorf("%s: found %q, want %q", source, found, want)
		}
	}
}

// raw lists where a package's sources print a value as Go does.
func (m *typed) raw(c *checked) (found []string) {
	for _, source := range c.sources {
		ast.Inspect(source, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || call.Ellipsis.IsValid() {
				return true
			}
			of, ok := c.Types[call.Fun].Type.(*types.Signature)
			if !ok || !of.Variadic() {
				return true
			}
			last := of.Params().At(of.Params().Len() - 1).Type().(*types.Slice)
			if is, ok := last.Elem().Underlying().(*types.Interface); !ok || !is.Empty() {
				return true
			}
			first := of.Params().Len() - 1
			if len(call.Args) <= first {
				return true
			}
			verbs := ""
			if first > 0 {
				if v := c.Types[call.Args[first-1]].Value; v != nil && v.Kind() == constant.String {
					verbs = verbsOf(constant.StringVal(v))
				} else if types.Identical(of.Params().At(first-1).Type(), types.Typ[types.String]) {
					return true // a format that comes from elsewhere
				}
			}
			if strings.Contains(called(call), "scanf") || verbs == "" && !prints(call) {
				return true
			}
			for i, arg := range call.Args[first:] {
				verb := 'v'
				if verbs != "" {
					if i >= len(verbs) {
						break
					}
					verb = rune(verbs[i])
				}
				if t := c.Types[arg].Type; strings.ContainsRune("vsqd", verb) && ofGo(t, verb) {
					found = append(found, fmt.Sprintf("%s: it shows a value as Go prints it, a %s: join it, or word it", m.files.Position(arg.Pos()), types.TypeString(t, nil)))
				}
			}
			return true
		})
	}
	slices.Sort(found)
	return found
}

// prints tells whether a call is fmt.Sprint or the like, which takes values without a format.
func prints(call *ast.CallExpr) bool {
	return slices.Contains([]string{"fmt.Sprint", "fmt.Sprintln", "fmt.Print", "fmt.Println", "fmt.Fprint", "fmt.Fprintln"}, called(call))
}

// verbsOf returns the verb for each argument of a format.
func verbsOf(format string) (verbs string) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*", format[i]) >= 0; i++ {
			if format[i] == '*' {
				verbs += "*"
			}
		}
		if i < len(format) && format[i] != '%' {
			verbs += format[i : i+1]
		}
	}
	return verbs
}

// ofGo tells whether only Go would print a value like that.
func ofGo(t types.Type, verb rune) bool {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time" && named.Obj().Name() == "Time" {
		return true
	}
	for _, name := range []string{"Error", "String", "Format"} {
		if is, _, _ := types.LookupFieldOrMethod(t, false, nil, name); is != nil {
			if _, method := is.(*types.Func); method && verb != 'd' {
				return false
			}
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		of, ok := u.Elem().Underlying().(*types.Basic)
		return !ok || of.Kind() != types.Byte || verb == 'v' || verb == 'd'
	case *types.Map, *types.Pointer, *types.Struct, *types.Chan, *types.Signature, *types.Array:
		return true
	}
	return false
}
