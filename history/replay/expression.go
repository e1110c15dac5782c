package replay

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"millrace/events"
	"millrace/internal/form"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/condition"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/value"
)

// seen is what an expression sees of a fact and its changes. Fields of tasks, nodes, queues and By
// have their JSON names. Missing parts, such as the task of a fact about a node, are empty.
type seen struct {
	Seq    uint64    `expr:"seq"`
	Type   string    `expr:"type"`
	Kind   string    `expr:"kind"`
	About  string    `expr:"about"`
	Actor  string    `expr:"actor"`
	At     time.Time `expr:"at"`
	Stored time.Time `expr:"stored"`
	// Fact are the fields of the fact as written.
	Fact map[string]any `expr:"fact"`
	By   *task.By       `expr:"by"`
	Task *task.Task     `expr:"task"`
	// Was is the task before the fact.
	Was     *task.Task     `expr:"was"`
	Node    *node.Node     `expr:"node"`
	Queue   *queue.Queue   `expr:"queue"`
	Breaker *limit.Circuit `expr:"breaker"`
	// Now is the time of the point: an expression reads no clock.
	Now func() time.Time `expr:"now"`
}

// Names with which an expression may begin.
var seenNames = func() (names []string) {
	for i := range reflect.TypeFor[seen]().NumField() {
		names = append(names, reflect.TypeFor[seen]().Field(i).Tag.Get("expr"))
	}
	return names
}()

// builtins are the functions of the language that an expression may call.
var builtins = []string{"len", "any", "all", "none", "count", "lower", "upper", "abs", "min", "max"}

// expression is a compiled expression.
type expression struct {
	text    string
	program *vm.Program
	vm      vm.VM
	fact    bool // it reads fields of the fact as written
}

// compile compiles an expression; with truth it must be boolean. The error explains the fault.
func compile(text string, truth bool) (*expression, error) {
	names := &byTags{types: map[ast.Node]reflect.Type{}}
	options := []expr.Option{
		expr.Patch(names), expr.Function(asText, textOf, new(func(any) string)), expr.Function(asSpan, spanOf, new(func(any) time.Duration)),
		expr.Function(asNumber, numberOf, new(func(any) int)),
	}
	if truth {
		options = append(options, expr.AsBool())
	}
	program, err := condition.Compile(text, seen{}, seenNames, builtins, options...)
	if err = cmp.Or(names.err, err); err != nil {
		return nil, err
	}
	return &expression{text: text, program: program, vm: vm.VM{MemoryBudget: condition.MostMemory}, fact: names.fact}, nil
}

// eval returns the value of the expression for s.
func (e *expression) eval(s *seen) (any, error) {
	value, err := e.vm.Run(e.program, s)
	if err != nil {
		return nil, condition.Plainly(err)
	}
	return value, nil
}

// absent tells whether an expression has no value because something is missing there, as the exit
// code of a fact about a node is, and not because it is wrong.
func absent(err error) bool {
	text := err.Error()
	return strings.Contains(text, "nothing") || strings.Contains(text, "cannot get")
}

// see returns what an expression sees of a fact.
func (e *expression) see(r *events.Record, was, is view.Item) *seen {
	s := &seen{
		Seq:     r.Seq,
		Type:    typeOf(r),
		Kind:    r.Kind.String(),
		About:   view.RefOf(r).ID,
		Actor:   r.Fact.Actor,
		At:      r.Fact.At,
		Stored:  r.Stored,
		By:      r.Fact.By,
		Task:    is.Task,
		Was:     was.Task,
		Node:    is.Node,
		Queue:   is.Queue,
		Breaker: is.Breaker,
	}
	s.Now = func() time.Time { return s.Stored }
	or(&s.By)
	or(&s.Task)
	or(&s.Was)
	or(&s.Node)
	or(&s.Queue)
	or(&s.Breaker)
	if e.fact {
		_ = json.Unmarshal(r.Raw, &s.Fact) // an unreadable message has no fields
	}
	return s
}

// or replaces nil by an empty value.
func or[T any](p **T) {
	if *p == nil {
		*p = new(T)
	}
}

// byTags makes an expression use the JSON names of fields: those in the tags of the types, like the
// log's forms.
type byTags struct {
	types map[ast.Node]reflect.Type
	fact  bool
	err   error
}

// The functions that turn values of Millrace into ones that the language compares.
const (
	asText   = "$text"
	asSpan   = "$span"
	asNumber = "$number"
)

// Visit implements [ast.Visitor]. The parts of a node have been visited before it.
func (b *byTags) Visit(n *ast.Node) {
	switch is := (*n).(type) {
	case *ast.IdentifierNode:
		b.fact = b.fact || is.Value == "fact"
		if i := slices.Index(seenNames, is.Value); i >= 0 {
			b.types[is] = reflect.TypeFor[seen]().Field(i).Type
		}
	case *ast.MemberNode:
		b.member(n, is)
	case *ast.CallNode:
		b.call(is)
	}
}

// call has the check look again at the argument of duration or date, whose fields are known only now.
func (b *byTags) call(is *ast.CallNode) {
	if condition.Timely(is) {
		is.SetType(nil)
	}
}

func (b *byTags) member(n *ast.Node, is *ast.MemberNode) {
	of := b.types[is.Node]
	if of == nil {
		return
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	name, named := is.Property.(*ast.StringNode)
	switch {
	case of.Kind() == reflect.Map:
		b.leaf(n, is, of.Elem())
	case named && of.Kind() == reflect.Struct && !form.Spelled(of):
		fields := form.Fields(of)
		i := slices.IndexFunc(fields, func(f form.Field) bool { return f.Name == name.Value })
		if i < 0 {
			b.unknown(name, fields)
			return
		}
		is.Property = &ast.StringNode{Value: of.FieldByIndex(fields[i].Index).Name}
		b.leaf(n, is, fields[i].Type)
	}
}

func (b *byTags) unknown(is *ast.StringNode, fields []form.Field) {
	name, from := is.Value, is.Location().From
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	if b.err != nil {
		return
	}
	if meant := value.Word(name, names); meant != "" {
		b.err = condition.At(fmt.Errorf("there is no field %q: did you mean %s?", name, meant), from)
		return
	}
	b.err = condition.At(fmt.Errorf("there is no field %q; there are %s", name, strings.Join(names, ", ")), from)
}

// leaf records the type of a field, and converts values that the language does not know.
func (b *byTags) leaf(n *ast.Node, is *ast.MemberNode, t reflect.Type) {
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		b.types[is] = t
		return
	}
	turn := ""
	switch {
	case t == reflect.TypeFor[time.Time](), t.PkgPath() == "" && t.Kind() != reflect.Map:
	case t == reflect.TypeFor[value.Duration]():
		turn = asSpan
	case form.Spelled(t), t.Kind() == reflect.String, t == reflect.TypeFor[json.RawMessage]():
		turn = asText
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		turn = asNumber
	default:
		b.types[is] = t
	}
	if turn != "" {
		ast.Patch(n, &ast.CallNode{Callee: &ast.IdentifierNode{Value: turn}, Arguments: []ast.Node{is}})
	}
}

func textOf(args ...any) (any, error) {
	switch v := args[0].(type) {
	case nil:
		return "", nil
	case json.RawMessage:
		return string(v), nil
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		return string(text), err
	}
	return reflect.ValueOf(args[0]).String(), nil
}

func spanOf(args ...any) (any, error) {
	d, _ := args[0].(value.Duration)
	return d.Std(), nil
}

func numberOf(args ...any) (any, error) {
	v := reflect.ValueOf(args[0])
	if v.CanUint() {
		return int(v.Uint()), nil // a named number of Millrace is small
	}
	return int(v.Int()), nil
}
