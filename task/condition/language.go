// Package condition has the language in which people write conditions, that of expr, and the rule that tells
// whether what happens outside makes a task of a job.
package condition

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"millrace/task/value"
)

// Bounds of an expression: its parts, and the values that it makes at one evaluation.
const (
	mostNodes  = 200
	MostMemory = 10_000
)

// Compile compiles an expression that sees env, which has these names, and calls these functions of expr, duration
// and date. The error explains the fault.
func Compile(text string, env any, names, functions []string, more ...expr.Option) (*vm.Program, error) {
	known := &known{functions: functions}
	options := []expr.Option{
		expr.Env(env), expr.DisableAllBuiltins(), expr.MaxNodes(mostNodes), expr.Patch(known),
		expr.Function("duration", ofText(timely["duration"]), new(func(string) time.Duration)), expr.Function("date", ofText(timely["date"]), new(func(string) time.Time)),
	}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, append(options, more...)...)
	switch {
	case known.err != nil:
		err = known.err
	case err != nil:
		err = Plainly(err)
	}
	if err != nil && strings.Contains(err.Error(), "unknown name") {
		err = fmt.Errorf("%w; an expression is of %s, and the functions %s, duration, date", err, strings.Join(names, ", "), strings.Join(functions, ", "))
	}
	return program, err
}

// known refuses functions that pass over lists unless they are among these, which expr does not, and texts that
// duration or date cannot understand.
type known struct {
	functions []string
	err       error
}

// Visit implements [ast.Visitor].
func (k *known) Visit(n *ast.Node) {
	var err error
	switch is := (*n).(type) {
	case *ast.BuiltinNode:
		if !slices.Contains(k.functions, is.Name) {
			err = At(fmt.Errorf("unknown name %s", is.Name), is.Location().From)
		}
	case *ast.CallNode:
		if !Timely(is) {
			break
		}
		if text, ok := is.Arguments[0].(*ast.StringNode); ok {
			if _, bad := timely[is.Callee.(*ast.IdentifierNode).Value](text.Value); bad != nil {
				err = At(bad, text.Location().From)
			}
		}
	}
	if k.err == nil {
		k.err = err
	}
}

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

// Timely tells whether a call is of duration or date.
func Timely(is *ast.CallNode) bool {
	name, named := is.Callee.(*ast.IdentifierNode)
	return named && len(is.Arguments) == 1 && timely[name.Value] != nil
}

// At adds where an expression is wrong.
func At(err error, from int) error { return fmt.Errorf("%w (character %d)", err, from+1) }

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
	{`^unknown field (\S+)$`, "there is no field %s"},
	{`^non-bool expression \(type (.+)\) used as condition$`, "the condition is %s, want true or false"},
	{`^builtin (\S+) takes only array \(got (.+)\)$`, "%s takes a list, not %s"},
	{`^reflect: call of \S+ on (\S+) Value$`, "it is %s, want a list"},
	{`^index out of range: (.+) \(array length is (.+)\)$`, "there is no value %s in a list of %s"},
	{`^runtime error: integer (divide by zero)$`, "one cannot %s"},
	{`^invalid \w+ literal: .*parsing (".*"): .*$`, "%s is no number here"},
	{`^cannot use (.+) to get an element from (.+)$`, "%s is no key of %s"},
	{`^error parsing regexp: (.+)$`, "it is no regular expression (RE2): %s"},
}

// Plainly says where and why an expression is wrong, without the words of the language's library.
func Plainly(err error) error {
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
	return At(errors.New(why), wrong.Column)
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
