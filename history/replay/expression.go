package replay

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"millrace/events"
	"millrace/internal/form"
	"millrace/projections/view"
	"millrace/task"
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

// timely are the functions that make times of texts. They are ours, because those of the language accept
// anything and fail at each fact.
var timely = map[string]func(text string) (any, error){
	"duration": func(text string) (any, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no duration, such as 90s or 2h30m", text)
		}
		return d, nil
	},
	"date": func(text string) (any, error) {
		w, ok := value.ParseWall(text)
		if !ok || !w.Dated || w.Yearless {
			return nil, fmt.Errorf("%q is no date, such as 2026-03-01 or 2026-03-01T12:00:00Z", text)
		}
		return w.In(time.Time{}), nil
	},
}

// Bounds of an expression: its parts, and the values that it makes at one fact.
const (
	mostNodes  = 200
	mostMemory = 10_000
)

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
		expr.Env(seen{}), expr.DisableAllBuiltins(), expr.MaxNodes(mostNodes), expr.Patch(names),
		expr.Function(asText, textOf, new(func(any) string)), expr.Function(asSpan, spanOf, new(func(any) time.Duration)),
		expr.Function(asNumber, numberOf, new(func(any) int)),
		expr.Function("duration", ofText(timely["duration"]), new(func(string) time.Duration)), expr.Function("date", ofText(timely["date"]), new(func(string) time.Time)),
	}
	for _, name := range builtins {
		options = append(options, expr.EnableBuiltin(name))
	}
	if truth {
		options = append(options, expr.AsBool())
	}
	program, err := expr.Compile(text, options...)
	switch {
	case names.err != nil:
		return nil, names.err
	case err != nil:
		err = plainly(err)
		if strings.Contains(err.Error(), "unknown name") {
			err = fmt.Errorf("%w; an expression is of %s, and the functions %s, duration, date", err, strings.Join(seenNames, ", "), strings.Join(builtins, ", "))
		}
		return nil, err
	}
	return &expression{text: text, program: program, vm: vm.VM{MemoryBudget: mostMemory}, fact: names.fact}, nil
}

// eval returns the value of the expression for s.
func (e *expression) eval(s *seen) (any, error) {
	value, err := e.vm.Run(e.program, s)
	if err != nil {
		return nil, plainly(err)
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

// call refuses a text that one of [timely] cannot understand.
func (b *byTags) call(is *ast.CallNode) {
	name, named := is.Callee.(*ast.IdentifierNode)
	if !named || len(is.Arguments) != 1 || timely[name.Value] == nil || b.err != nil {
		return
	}
	is.SetType(nil) // or the check does not look at the argument again, whose fields are known only now
	if text, ok := is.Arguments[0].(*ast.StringNode); ok {
		if _, err := timely[name.Value](text.Value); err != nil {
			b.err = at(err, is.Arguments[0].Location().From)
		}
	}
}

// at adds where an expression is wrong.
func at(err error, from int) error { return fmt.Errorf("%w (character %d)", err, from+1) }

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
		b.err = at(fmt.Errorf("there is no field %q: did you mean %s?", name, meant), from)
		return
	}
	b.err = at(fmt.Errorf("there is no field %q; there are %s", name, strings.Join(names, ", ")), from)
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

func ofText(do func(string) (any, error)) func(args ...any) (any, error) {
	return func(args ...any) (any, error) {
		text, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("it is %s, want a text", typeInWords(fmt.Sprintf("%T", args[0])))
		}
		return do(text)
	}
}

// sentences are what the language says of wrong types, and how Millrace says it. Each part in
// parentheses is the name of a type, or what stands in the expression. They are compiled when an expression
// is wrong, which is seldom: no command waits for that at its start.
var sentences = []struct {
	is, says string
}{
	{`^invalid operation: bool\((.+)\)$`, "it is %s, want true or false"},
	{`^invalid operation: (\S+) \(mismatched types (.+) and (.+)\)$`, "%s does not go with %s and %s"},
	{`^invalid operation: (\S+) \(mismatched type (.+)\)$`, "%s does not go with %s"},
	{`^invalid operation: (.+) (\S+) (.+)$`, "%[2]s does not go with %[1]s and %[3]s"},
	{`^cannot use (.+) as argument \(type (.+)\) to call (\S+)\s*$`, "%[3]s takes %[2]s, not %[1]s"},
	{`^invalid argument for (\S+) \(type (.+)\)$`, "%s does not take %s"},
	{`^expected (.+), but got (.+)$`, "it is %[2]s, want %[1]s"},
	{`^interface conversion: .* is (.+), not (.+)$`, "it is %s, want %s"},
	{`^cannot fetch (\S+) from (.+)$`, "there is no %s in %s"},
	{`^type (.+) has no field (\S+)$`, "%s has no field %s"},
	{`^non-bool expression \(type (.+)\) used as condition$`, "the condition is %s, want true or false"},
	{`^builtin (\S+) takes only array \(got (.+)\)$`, "%s takes a list, not %s"},
	{`^reflect: call of \S+ on (\S+) Value$`, "it is %s, want a list"},
	{`^index out of range: (.+) \(array length is (.+)\)$`, "there is no value %s in a list of %s"},
	{`^runtime error: integer (divide by zero)$`, "one cannot %s"},
	{`^invalid \w+ literal: .*parsing (".*"): .*$`, "%s is no number here"},
	{`^cannot use (.+) to get an element from (.+)$`, "%s is no key of %s"},
	{`^error parsing regexp: (.+)$`, "it is no regular expression (RE2): %s"},
}

// plainly says where and why an expression is wrong, without the words of the language's library.
func plainly(err error) error {
	why, _, _ := strings.Cut(err.Error(), "\n")
	wrong, placed := errors.AsType[*file.Error](err)
	if placed {
		why = wrong.Message
	}
	for _, s := range sentences {
		if parts := regexp.MustCompile(s.is).FindStringSubmatch(why); parts != nil {
			words := make([]any, len(parts)-1)
			for i, part := range parts[1:] {
				words[i] = typeInWords(part)
			}
			why = fmt.Sprintf(s.says, words...)
			break
		}
	}
	if !placed {
		return errors.New(why)
	}
	return at(errors.New(why), wrong.Column)
}

// typeInWords are the words for a type of Go; anything else stays.
func typeInWords(name string) string {
	name = strings.TrimLeft(name, "*&")
	_, last, ofPackage := strings.Cut(name, ".")
	switch {
	case name == "string":
		return "a text"
	case name == "bool":
		return "true or false"
	case name == "time.Time":
		return "a time"
	case name == "time.Duration":
		return "a duration"
	case name == "<nil>", name == "nil", name == "zero":
		return "nothing"
	case name == "interface {}", name == "any", name == "unknown":
		return "anything"
	case strings.HasPrefix(name, "func"):
		return "a function"
	case strings.HasPrefix(name, "[]"), name == "array":
		return "a list"
	case strings.HasPrefix(name, "map"):
		return "a mapping"
	case numbers.MatchString(name):
		return "a number"
	case ofPackage && !strings.ContainsAny(name, " ()"):
		return "a " + strings.ToLower(last)
	}
	return name
}

var numbers = regexp.MustCompile(`^(u?int|float)(8|16|32|64)?$`)

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
