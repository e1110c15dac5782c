package condition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// ErrUnmet: the condition of a job does not hold for what has happened, so no task follows.
var ErrUnmet = errors.New("on.when does not hold")

// Message is what a condition sees of a message of NATS beside its body.
type Message struct {
	Subject  string              `json:"subject"`
	Stream   string              `json:"stream,omitempty"`
	Sequence uint64              `json:"sequence,omitempty"`
	Stored   time.Time           `json:"stored,omitzero"`
	Headers  map[string][]string `json:"headers,omitempty"`
}

// MessageName is the name by which a condition and the parameters of a job know a [Message].
const MessageName = "nats"

func (m *Message) seen() map[string]any {
	return map[string]any{"subject": m.Subject, "stream": m.Stream, "sequence": int(m.Sequence), "stored": m.Stored, "headers": m.Headers}
}

// functions are those of the language that a condition may call. None passes over a list, nor are there
// variables: a condition costs the server little, whatever a message has.
var functions = []string{"len", "lower", "upper", "abs", "min", "max"}

// Valid refuses an invalid job, as [job.Job.Validate] does, and one whose condition is none.
func Valid(j *job.Job) error { return value.JoinFaults(j.Validate(), Compiles(j)) }

// Compiles refuses a job whose condition is none. The error says where it is wrong.
func Compiles(j *job.Job) error {
	if !j.On.Filters() {
		return nil
	}
	_, err := compile(j.On)
	return err
}

// compile compiles the condition of a job. Where it is known what happens, its members are, too.
func compile(on *job.Handlers) (*vm.Program, error) {
	sees := types.Map{job.PayloadParam: types.Any}
	var members []string
	switch after, hears, finds := on.After() != "", on.Hears(), on.Finds(); {
	case after && !hears && !finds:
		members = job.EndMembers
	case finds && !hears && !after:
		members = job.FileMembers
	case hears:
		message := types.Map{}
		for name, is := range (&Message{}).seen() {
			message[name] = types.TypeOf(is)
		}
		sees[MessageName] = message
	}
	if members != nil {
		payload := types.Map{}
		for _, name := range members {
			payload[name] = types.Any
		}
		sees[job.PayloadParam] = payload
	}
	check := &plain{}
	program, err := Compile(on.When, sees, slices.Sorted(maps.Keys(sees)), functions, expr.AsBool(), expr.Patch(check))
	switch {
	case check.err != nil:
		err = check.err
	case err == nil:
		return program, nil
	case members != nil && strings.Contains(err.Error(), "there is no field"):
		err = fmt.Errorf("%w; %s has %s", err, job.PayloadParam, strings.Join(members, ", "))
	}
	return nil, fmt.Errorf("on.when: %w", err)
}

// plain refuses variables, by which a short condition makes a long text.
type plain struct{ err error }

// Visit implements [ast.Visitor].
func (p *plain) Visit(n *ast.Node) {
	if is, variable := (*n).(*ast.VariableDeclaratorNode); variable && p.err == nil {
		p.err = At(errors.New("a condition has no variables"), is.Location().From)
	}
}

// Triggered returns the submission of a job that follows from something outside, as [birth.Triggered] does: m
// is for what is a message. The error is [ErrUnmet] if the condition of the job does not hold; any other one
// says why no task can follow.
func Triggered(of *job.Job, by []byte, m Message) (birth.Submission, error) {
	s, err := birth.Triggered(of, by)
	if err != nil || !of.On.Filters() {
		return s, err
	}
	program, err := compile(of.On)
	if err != nil {
		return s, err
	}
	run := vm.VM{MemoryBudget: MostMemory}
	holds, err := run.Run(program, map[string]any{job.PayloadParam: seen(by), MessageName: m.seen()})
	if err != nil {
		return s, fmt.Errorf("on.when: %w", Plainly(err))
	}
	if holds != true {
		return s, ErrUnmet
	}
	return s, nil
}

// seen is a JSON value as a condition sees it: whole numbers are compared exactly.
func seen(text []byte) any {
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]any{}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var is any
	_ = d.Decode(&is) // it is JSON
	return counted(is)
}

// counted replaces the numbers in a value by ones that the language knows.
func counted(is any) any {
	switch v := is.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, _ := v.Float64() // one beyond all floats is infinite
		return f
	case []any:
		for i := range v {
			v[i] = counted(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = counted(v[name])
		}
	}
	return is
}
