package answers

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"millrace/task/param"
)

// Command is how a person types a verb: package internal/cli/verb makes a command of the program of
// it. Its flags are the fields of the request that have the tag flag; the tag usage has their words,
// with the name of the value in braces. A field with the tag args takes the arguments after the first.
type Command struct {
	// Use is the command below millrace, with what it takes: "task cancel ID... | FILTERS". Its first
	// word says of which noun the arguments are names.
	Use     string
	Aliases []string
	// Short, Long and Example are its help.
	Short, Long, Example string
	// Reason is what --reason is if it is not given.
	Reason string
	// Many is which tasks it changes that filters choose. Default: the tasks must be named.
	Many *Many
	// Waits gives it --wait, for the end of the tasks.
	Waits bool
	// Line chooses what is printed of each changed thing. Default: the usual line of its noun.
	Line string
	// Asks is what the user must confirm, as in "remove"; "" for nothing.
	Asks string
	// Foresee finds out what would refuse a change, and says what would be done: --dry-run calls it
	// with what an argument names. Default: there is no such flag.
	Foresee func(s *Service, ctx context.Context, name string) error
}

// typed adds the command of an endpoint.
func (e *Endpoint) typed(c *Command) *Endpoint {
	e.Command = c
	return e
}

// NewRequest returns a pointer to an empty request.
func (e *Endpoint) NewRequest() any { return reflect.New(e.Request).Interface() }

// Check says what is wrong with a request of [Endpoint.NewRequest], and completes it.
func (e *Endpoint) Check(request any) error { return check(request) }

// Do checks a request of [Endpoint.NewRequest] and does what it asks for, as s: a process without a
// read model may do so with its own rights, for verbs that have a [Command].
func (e *Endpoint) Do(ctx context.Context, s *Service, request any) (any, error) {
	if err := e.Check(request); err != nil {
		return nil, err
	}
	return e.act(s, ctx, request)
}

// says tells the user of a command what was done to a thing; false if nobody listens, who then wants
// the thing itself for an answer.
func (s *Service) says(format string, args ...any) bool {
	if s.Say != nil {
		s.Say(fmt.Sprintf(format, args...))
	}
	return s.Say != nil
}

// Button is how pages offer a verb that changes something. Its form asks for a reason if the request
// takes one.
type Button struct {
	// On are the nouns on whose pages it stands, as "nodes". Default: the first word of its route.
	On []string
	// Label stands on it. Default: the name of the verb.
	Label string
	// Why says above the form what happens.
	Why string
	// Has tells whether a thing has it, as [when] makes it. Default: each has.
	Has func(thing any) bool
	// Asks are the fields of the request that its form has, beside the reason.
	Asks []Asked
	// Declares are the values that it asks for in place of what people see of Asks, in the field texts of the
	// request; none for a thing that declares none. Default: nothing does.
	Declares func(thing any) param.Params
}

// Asked is a field of a form.
type Asked struct {
	// Name is that of the field of the request, and Label what stands before it. Nobody sees one without a label.
	Name, Label string
	// Long gives it several lines.
	Long bool
	// Is is what it holds for a thing before a person types, as [filled] makes it. Default: nothing.
	Is func(thing any) string
}

// when makes [Button.Has] for things of one type; others do not have the button.
func when[T any](has func(*T) bool) func(any) bool {
	return func(thing any) bool { is, ok := thing.(*T); return ok && has(is) }
}

// filled makes [Asked.Is] for things of one type.
func filled[T any](is func(*T) string) func(any) string {
	return func(thing any) string {
		if of, ok := thing.(*T); ok {
			return is(of)
		}
		return ""
	}
}

// button adds the button of an endpoint, which has its routes.
func (e *Endpoint) button(b Button) *Endpoint {
	nouns := make([]string, len(e.Routes))
	for i, r := range e.Routes {
		nouns[i], _, _ = strings.Cut(r.Path[1:], "/")
	}
	if b.On == nil {
		b.On = nouns[:1]
	}
	if _, verb, _ := strings.Cut(string(e.Verb), "."); b.Label == "" {
		b.Label = strings.ToUpper(verb[:1]) + verb[1:]
	}
	// The thing that it is about stands in the path, if it is about one.
	at := max(slices.Index(nouns, b.On[0]), 0)
	if name, one := strings.CutPrefix(e.Routes[at].Path[1+len(nouns[at]):], "/{"); one {
		e.Of, _, _ = strings.Cut(name, "}")
	}
	e.Button = &b
	return e
}

// Reasons tells whether the request takes a reason.
func (e *Endpoint) Reasons() bool {
	return slices.ContainsFunc(reflect.VisibleFields(e.Request), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name == "reason" && f.Tag.Get("hidden") == ""
	})
}

// typed is what a field holds of a value as JSON: nothing, if that has no content.
func typed(text []byte, _ error) string {
	if is := string(text); is != "{}" {
		return is
	}
	return ""
}
