package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a scenario file, in bytes.
const maxFile = 1 << 20

// ParseSteps reads a scenario file: YAML with one field, steps, a list of mappings with the fields
// of [Step]. name is used in messages only. The returned steps are valid for these numbers of
// workers and schedulers, in the order of their beginning. The error has a line "name:LINE: what is
// wrong" for every mistake.
func ParseSteps(name string, text []byte, workers, schedulers int) ([]Step, error) {
	f := stepFile{name: name, size: size{workers, schedulers}}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
	f.read(text)
	if f.wrong != nil {
		return nil, errors.Join(f.wrong...)
	}
	slices.SortStableFunc(f.steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return f.steps, nil
}

// stepFile is a scenario file being parsed.
type stepFile struct {
	name  string
	size  size
	steps []Step
	lines []int // of the steps
	wrong []error
}

func (f *stepFile) refuse(n ast.Node, format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Errorf("%s:%d: %s", f.name, lineOf(n), fmt.Sprintf(format, args...)))
}

func (f *stepFile) read(text []byte) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		f.wrong = append(f.wrong, fmt.Errorf("%s: %s", f.name, strings.SplitN(err.Error(), "\n", 2)[0]))
		return
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if _, comment := doc.Body.(*ast.CommentGroupNode); doc.Body != nil && !comment {
			bodies = append(bodies, doc.Body)
		}
	}
	if len(bodies) != 1 {
		f.wrong = append(f.wrong, fmt.Errorf("%s: has %d YAML documents, want one with the field `steps`", f.name, len(bodies)))
		return
	}
	found := false
	for _, field := range f.fields(bodies[0]) {
		if key := field.Key.String(); key != "steps" {
			f.refuse(field.Key, "unknown field `%s`; there is only `steps`", key)
			continue
		}
		found = true
		list, ok := field.Value.(*ast.SequenceNode)
		if !ok {
			f.refuse(field.Key, "steps: want a list")
			continue
		}
		for _, item := range list.Values {
			f.step(item)
		}
	}
	if found && len(f.steps) == 0 && f.wrong == nil {
		f.refuse(bodies[0], "steps: the list is empty")
	} else if !found && f.wrong == nil {
		f.refuse(bodies[0], "the field `steps` is missing")
	}
}

// fields returns the fields of a mapping; each may occur once.
func (f *stepFile) fields(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	f.refuse(n, "want fields of the form `name: value`")
	return nil
}

// step reads one item of the list.
func (f *stepFile) step(n ast.Node) {
	before := len(f.wrong)
	var s Step
	there := map[string]bool{}
	for _, field := range f.fields(n) {
		key := field.Key.String()
		there[key] = true
		value, ok := field.Value.(ast.ScalarNode)
		if !ok || value.GetValue() == nil {
			f.refuse(field.Key, "%s: want one value", key)
			continue
		}
		text := fmt.Sprint(value.GetValue())
		var err error
		switch key {
		case "at":
			err = s.At.UnmarshalText([]byte(text))
		case "for":
			err = s.For.UnmarshalText([]byte(text))
		case "delay":
			err = s.Delay.UnmarshalText([]byte(text))
		case "fault":
			s.Fault = Fault(text)
		case "target":
			s.Target = Target(text)
		case "rate":
			s.Rate, err = number(text)
		case "shift":
			err = s.Shift.UnmarshalText([]byte(text))
		case "every":
			s.Every, err = number(text)
		default:
			f.refuse(field.Key, "unknown field `%s`; a step has at, fault, target, for, delay, rate, every and shift", key)
			continue
		}
		if err != nil {
			f.refuse(field.Key, "%s: %v", key, err)
		}
	}
	for _, key := range []string{"at", "fault", "target", "for"} {
		if !there[key] && len(f.wrong) == before {
			f.refuse(n, "the step has no field `%s`", key)
		}
	}
	if len(f.wrong) > before {
		return
	}
	if err := s.validate(f.size); err != nil {
		f.refuse(n, "%v", err)
		return
	}
	if other, clashes := clash(s, f.steps, f.size); clashes {
		i := slices.Index(f.steps, other)
		f.refuse(n, "%s has another fault at that time, from the step on line %d: a target has one at a time", s.Target, f.lines[i])
		return
	}
	f.steps = append(f.steps, s.withDefaults())
	f.lines = append(f.lines, lineOf(n))
}

// lineOf returns the line where a node begins: a mapping without braces begins with its first key.
func lineOf(n ast.Node) int {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key
	} else if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no whole number", text)
	}
	return n, nil
}
